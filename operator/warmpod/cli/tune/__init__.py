"""`kubectl warm tune`."""
