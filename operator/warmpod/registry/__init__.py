"""A client of the OCI distribution API: packing pushes, agents read signatures, and the operator
asks what tags stand for and how large images are.

Our own, because none of the libraries does what a model of a hundred gigabytes needs: `oras` (PyPI)
sends a blob from a file on disk, one after another, and begins again after a cut; here a layer is
made while it is sent, several are sent at a time, and a cut one goes on where the registry says.
"""
