"""Answers of the engine under other settings (spec.warmup.compare): asked, kept, compared."""

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from warmpod.protocol import REFERENCE_FILE
from warmpod.sidecar import comparison, golden
from warmpod.sidecar.asking import Asker
from warmpod.sidecar.comparison import Comparison
from warmpod.sidecar.golden import GoldenAnswer
from warmpod.sidecar.memory import write_atomically
from warmpod.sidecar.planning import Endpoint

log = logging.getLogger(__name__)


async def answers(asker: Asker, endpoint: Endpoint, model: str, samples: int) -> list[GoldenAnswer]:
    """Raises EngineError and ValueError."""
    found: list[GoldenAnswer] = []
    for prompt in comparison.samples(samples):
        body = golden.body_for(endpoint, model, prompt, comparison.ANSWER_TOKENS)
        document = await asker.document(endpoint, body)
        found.append(golden.read_answer(endpoint, document))
    return found


def keep(run_dir: Path, reference: Sequence[GoldenAnswer]) -> None:
    """Raises OSError."""
    content = [dataclasses.asdict(answer) for answer in reference]
    write_atomically(run_dir / REFERENCE_FILE, json.dumps(content))


def compared(run_dir: Path, ours: Sequence[GoldenAnswer]) -> Comparison | None:
    """None when no reference boot has left its answers."""
    try:
        content = json.loads((run_dir / REFERENCE_FILE).read_text())
        reference = [GoldenAnswer(**answer) for answer in content]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s is not usable: %r", REFERENCE_FILE, error)
        return None
    return comparison.compare(reference, ours)
