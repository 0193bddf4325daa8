"""What the engine says: passed on, and understood."""
