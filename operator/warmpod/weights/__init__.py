"""Model files: what a directory must hold, how it becomes an image, how it is verified."""
