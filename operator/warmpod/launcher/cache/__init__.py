"""The compile cache of one pod: its directory, what is known about it, and the store behind it."""
