"""Models of the Hugging Face hub, in the hub's own cache on this machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SCHEME = "hf://"
_SOURCE = re.compile(r"hf://(?P<repository>[^/@]+/[^/@]+)(@(?P<revision>[^@]+))?")


class HubError(Exception):
    """The repository cannot be had; the message names it and the remedy."""


@dataclass(frozen=True)
class Repository:
    name: str
    revision: str | None


def parse(source: str) -> Repository:
    """`hf://organisation/name[@revision]`. Raises HubError."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        raise HubError(f"{source}: write hf://ORGANISATION/NAME or hf://ORGANISATION/NAME@REVISION")
    return Repository(found["repository"], found["revision"])


def download(
    repository: Repository, include: Sequence[str], exclude: Sequence[str], quiet: bool
) -> Path:
    """The directory of the snapshot; what the cache has already is not loaded again.

    The token is that of HF_TOKEN or of `hf auth login`. Raises HubError."""
    # Takes a second to import, which the other commands need not wait for.
    import httpx2
    from huggingface_hub import HfApi, errors, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if quiet:
        disable_progress_bars()
    name = f"Hugging Face repository {repository.name}"
    if repository.revision:
        name += f" at {repository.revision}"
    try:
        # Asked first: without an answer, snapshot_download takes what a branch was the last time.
        commit = HfApi().model_info(repository.name, revision=repository.revision).sha
        return Path(
            snapshot_download(
                repository.name,
                revision=commit,
                allow_patterns=list(include) or None,
                ignore_patterns=list(exclude) or None,
            )
        )
    except errors.GatedRepoError as error:
        raise HubError(
            f"{name}: its owners grant access to it: ask for it on its page, then set HF_TOKEN or "
            "run: hf auth login"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(f"{name}: there is no such revision") from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"{name}: not found; a private one needs HF_TOKEN or: hf auth login"
        ) from error
    except (httpx2.HTTPError, OSError, ValueError) as error:
        raise HubError(f"{name}: {error}; run it again: complete files stay there") from error
