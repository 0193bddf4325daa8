"""What can go wrong when a pod talks to the API server about itself."""


class PodStatusError(Exception):
    """The API server could not be reached, or refused the request."""
