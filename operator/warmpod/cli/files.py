"""WarmModels in files."""

from __future__ import annotations

from pathlib import Path

import yaml

from warmpod.cli.cluster import Document
from warmpod.protocol import KIND


class FileError(Exception):
    """There is not one WarmModel in the file; the message says what is there."""


def warm_model(path: Path) -> Document:
    """The one WarmModel in a file of YAML documents, as it stands there. Raises FileError."""
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FileError(f"{path}: {' '.join(str(error).split())}") from error
    found = [each for each in documents if isinstance(each, dict) and each.get("kind") == KIND]
    if len(found) != 1:
        raise FileError(f"{path} holds {len(found)} WarmModels: give a file with one")
    return found[0]


def as_admitted(document: Document) -> Document:
    """With what the API server would add to its metadata."""
    metadata = document.get("metadata")
    known = {"namespace": "default", "uid": "none"} | (
        metadata if isinstance(metadata, dict) else {}
    )
    return document | {"metadata": known}
