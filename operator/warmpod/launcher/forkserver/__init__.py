"""The fork server: a program of its own, run by the engine's interpreter. See `__main__`."""
