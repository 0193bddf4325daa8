"""What the make targets run: images, install, demo and tests."""
