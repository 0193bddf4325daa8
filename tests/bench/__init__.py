"""Measurements on the local cluster: `make bench`."""
