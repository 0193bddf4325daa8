"""Deterministic answers: asked now, compared with those recorded before."""

import logging
from collections.abc import Sequence

from warmpod.api.warmup import Golden
from warmpod.sidecar import fingerprint, golden
from warmpod.sidecar.asking import Asker
from warmpod.sidecar.engine import EngineError
from warmpod.sidecar.fingerprint import Fingerprint
from warmpod.sidecar.memory import WarmMemory
from warmpod.sidecar.planning import Endpoint

log = logging.getLogger(__name__)

# Kernels whose sums depend on the batch can tip a near tie, so one difference proves nothing.
ATTEMPTS = 3


async def golden_problem(asker: Asker, goldens: Sequence[Golden], model: str) -> str:
    """How the first of spec.warmup.golden differs; empty when all are as recorded."""
    for item in goldens:
        endpoint, body = golden.request_for(item, model)
        try:
            document = await asker.document(endpoint, body)
            problem = golden.check(item, golden.read_answer(endpoint, document))
        except (EngineError, ValueError) as error:
            problem = f"golden {item.name}: {error}"
        if problem:
            return problem
    return ""


async def changed_answer(asker: Asker, goldens: Sequence[Golden], memory: WarmMemory) -> str:
    """How a boot that was proven warm answers otherwise than then; empty if it does not."""
    if goldens:
        return await golden_problem(asker, goldens, memory.model)
    return await fingerprint_problem(asker, memory.endpoint, memory.model, memory.fingerprint)


async def take_fingerprint(asker: Asker, endpoint: Endpoint, model: str) -> Fingerprint:
    """Empty when the engine gives no answer that it would give again."""
    first = await _answer(asker, endpoint, model)
    second = await _answer(asker, endpoint, model)
    return first if first and second and fingerprint.same(first, second) else ()


async def fingerprint_problem(
    asker: Asker, endpoint: Endpoint, model: str, recorded: Fingerprint
) -> str:
    """Empty when one of a few answers is the recorded one."""
    if not recorded:
        return ""
    found: Fingerprint = ()
    for _ in range(ATTEMPTS):
        found = await _answer(asker, endpoint, model)
        if fingerprint.same(recorded, found):
            return ""
    return f"before: {_shown(recorded)}, now: {_shown(found)}"


async def _answer(asker: Asker, endpoint: Endpoint, model: str) -> Fingerprint:
    body = fingerprint.request(endpoint, model)
    if body is None:
        return ()
    try:
        return fingerprint.read(await asker.document(endpoint, body))
    except (EngineError, ValueError) as error:
        log.warning("no answer to compare: %s", error)
        return ()


def _shown(found: Fingerprint) -> str:
    return ", ".join(str(part) for part in found[:4])[:200] or "no answer"
