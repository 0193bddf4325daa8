"""What a registry can answer that is no success."""

from __future__ import annotations


class RegistryError(Exception):
    """The registry refuses, or says something that cannot be used; asking again does not help."""


class Denied(RegistryError):
    """The registry wants credentials, or other ones."""


class NotFound(RegistryError):
    """The registry does not have it."""


class Unreachable(RegistryError):
    """No answer, or an error of the registry itself, after all repetitions: later may help."""
