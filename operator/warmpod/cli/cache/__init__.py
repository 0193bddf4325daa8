"""`kubectl warm cache`."""
