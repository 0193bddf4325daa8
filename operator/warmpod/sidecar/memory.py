"""What outlives the sidecar in the run directory: which boot was proven warm, and why."""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from warmpod.protocol import WARM_FILE
from warmpod.sidecar.fingerprint import Fingerprint
from warmpod.sidecar.lifecycle import Evidence
from warmpod.sidecar.planning import Endpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmMemory:
    boot: str
    evidence: Evidence
    endpoint: Endpoint
    model: str
    fingerprint: Fingerprint = ()
    # What a later sidecar does not play again, by name.
    buckets: tuple[str, ...] = ()


def remember(run_dir: Path, memory: WarmMemory, at: float) -> None:
    """Raises OSError. The launcher reads `boot` and `warm`; the rest is ours."""
    evidence = memory.evidence
    content = {
        "boot": memory.boot,
        "warm": True,
        "at": at,
        "rounds": evidence.rounds,
        "first_token": evidence.first_token,
        "steady": evidence.steady,
        "endpoint": memory.endpoint,
        "model": memory.model,
        "fingerprint": memory.fingerprint,
        "buckets": memory.buckets,
    }
    write_atomically(run_dir / WARM_FILE, json.dumps(content))


def recall(run_dir: Path) -> WarmMemory | None:
    try:
        content = json.loads((run_dir / WARM_FILE).read_text())
        evidence = Evidence(content["rounds"], content["first_token"], content["steady"])
        return WarmMemory(
            content["boot"],
            evidence,
            content["endpoint"],
            content["model"],
            tuple(content["fingerprint"]),
            tuple(content["buckets"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s is not usable, so the boot is warmed up again: %r", WARM_FILE, error)
        return None


def write_atomically(path: Path, text: str) -> None:
    """The launcher may read under another user, at any moment."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(0o644)
    os.replace(temporary, path)
