"""File systems that others write to as well: locks, ages, links, and how much room is left."""
