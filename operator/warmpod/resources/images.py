"""References of images."""

from __future__ import annotations

import hashlib

_KEY_HEX_DIGITS = 32


def pin(image: str, digest: str | None) -> str:
    """The reference by digest, so that no node ever asks what a tag means now."""
    if digest is None or "@" in image:
        return image
    return f"{_repository(image)}@{digest}"


def identity(image: str, digest: str | None) -> str:
    """What the image holds: its digest. Where that is not known, the reference stands in."""
    return digest or image.partition("@")[2] or _reference_key(image)


def weights_key(image: str, digest: str | None) -> str:
    """The node directory of a weights image: equal content, equal directory.

    Without a digest the reference stands in for the content.
    """
    known = digest or (image.partition("@")[2] or None)
    if known is None:
        return _reference_key(image)
    return known.partition(":")[2][:_KEY_HEX_DIGITS]


def _reference_key(image: str) -> str:
    return "ref-" + hashlib.sha256(image.encode()).hexdigest()[:16]


def _repository(image: str) -> str:
    """Without its tag; a colon before the last slash belongs to the registry's port."""
    path, slash, name = image.rpartition("/")
    return path + slash + name.partition(":")[0]
