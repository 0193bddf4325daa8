"""Where a set of weights comes from, as a person finds it, and what to do there about bad files.

Inside the agent every source is a mount of its own making; what is said names the image, the claim
or the node's directory, and the one remedy that fits it.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from warmpod.protocol import REMEDY
from warmpod.reasons import (
    DIGEST_MISMATCH,
    NOT_RESIDENT,
    PATH_MISMATCH,
    SIZE_MISMATCH,
    WEIGHTS_MISSING,
    WEIGHTS_NOT_READABLE,
    Reason,
)
from warmpod.weights.findings import Finding, summary

# Findings that other files in the same place would end.
SPOILT = (WEIGHTS_MISSING, SIZE_MISMATCH, DIGEST_MISMATCH)
#: The path of a finding about the directory as a whole.
WHOLE = "."
_REPACK = "make the image again from a whole model (warmpod pack) and name that one in the spec"


class Kind(StrEnum):
    IMAGE = "image"
    CLAIM = "persistentVolumeClaim"
    NODE_PATH = "nodePath"
    DOWNLOAD = "download"


@dataclass(frozen=True)
class Origin:
    """`name`: of the image or the claim, empty on a node's own disk. `folder`: inside the claim, or
    absolute on the node; empty for the root."""

    kind: Kind
    name: str = ""
    folder: str = ""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Origin:
        """Raises ValueError, KeyError."""
        name, folder = str(document.get("name") or ""), str(document.get("folder") or "")
        return cls(Kind(document["kind"]), name, folder.rstrip("/"))

    @property
    def place(self) -> str:
        """For people, beside the name of the node."""
        if self.kind is Kind.IMAGE:
            return f"image {self.name}"
        if not self.name:
            return self.folder
        return f"{self.folder} of claim {self.name}" if self.folder else f"claim {self.name}"

    @property
    def room_remedy(self) -> str:
        """What to do where a download does not fit."""
        if self.name:
            return (
                f"remove what fills claim {self.name}, or give it more room "
                "(spec.resources.requests.storage of the claim)"
            )
        return (
            f"remove what fills the disk of {self.folder} on the node, or choose nodes with larger "
            "disks in spec.pod.nodeSelector"
        )

    def explain(self, findings: Sequence[Finding], has_manifest: bool) -> tuple[Reason, str]:
        """Reason and message of findings that the agent cannot put right by itself."""
        reason = findings[0].reason
        if reason not in (*SPOILT, WEIGHTS_NOT_READABLE, NOT_RESIDENT):
            return reason, summary(findings)
        if reason == WEIGHTS_MISSING and findings[0].path == WHOLE:
            return self._empty(findings[0])
        remedy = self._remedy(reason, has_manifest)
        return reason, f"{self._named(findings)}{REMEDY}{remedy}"

    def unreadable(self, error: OSError) -> str:
        """What the system said of a file, without the agent's own path of it."""
        words = f"{self.place}: {PurePath(error.filename or '').name or 'a file'}: {error.strerror}"
        if error.errno in (errno.EACCES, errno.EPERM):
            return words
        return f"{words}{REMEDY}check the disk or volume that it lies on"

    def _empty(self, finding: Finding) -> tuple[Reason, str]:
        words = f"{self.place} {finding.detail}"
        match self.kind:
            case Kind.CLAIM | Kind.NODE_PATH:
                # The kubelet makes a directory that is missing in some kinds of volumes.
                where = "into the claim" if self.kind is Kind.CLAIM else "there on the node"
                remedy = f"correct {self.kind}.path, or put the model {where}"
                return PATH_MISMATCH, f"{words}{REMEDY}{remedy}"
            case Kind.IMAGE:
                return finding.reason, f"{words}{REMEDY}{_REPACK}"
            case Kind.DOWNLOAD:
                return finding.reason, f"{words}{REMEDY}it is downloaded again by itself"

    def _named(self, findings: Sequence[Finding]) -> str:
        """The files by their full paths."""
        if self.kind is Kind.IMAGE:
            return f"{self.place}: {summary(findings)}"
        inside = f"{self.folder}/" if self.folder else ""
        named = summary([replace(each, path=f"{inside}{each.path}") for each in findings])
        return f"claim {self.name}: {named}" if self.name else named

    def _remedy(self, reason: Reason, has_manifest: bool) -> str:
        if reason == NOT_RESIDENT:
            return "it is read and compared again by itself"
        if self.kind is Kind.DOWNLOAD:
            return "it is downloaded again by itself"
        if reason == WEIGHTS_NOT_READABLE:
            return self._readable()
        match self.kind:
            case Kind.CLAIM:
                return f"put the right files into claim {self.name}"
            case Kind.NODE_PATH:
                return "put the right files there on the node"
            case Kind.IMAGE:
                # Nothing says what the image should hold, so every node's copy is the same.
                lacks = reason == WEIGHTS_MISSING and not has_manifest
                return _REPACK if lacks else self._pull_or_repack()

    def _pull_or_repack(self) -> str:
        return (
            "if no other node says so, this one's copy is damaged: remove it there (crictl rmi "
            f"{self.name}) and delete this pod; if all do, {_REPACK}"
        )

    def _readable(self) -> str:
        if self.kind is Kind.IMAGE:
            return "make the image again with warmpod pack, which makes its files readable"
        where = "on the node" if self.kind is Kind.NODE_PATH else f"in claim {self.name}"
        return f"{where}: chmod -R a+rX {self.folder or WHOLE}"
