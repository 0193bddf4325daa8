"""Whom the operator asks besides the API server: image registries and sidecars."""
