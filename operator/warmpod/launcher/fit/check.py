"""Tells of each boot whether what it stands on fits together."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict

from warmpod.launcher.boot import Boot
from warmpod.launcher.console import say
from warmpod.launcher.fit.parts import read_parts
from warmpod.launcher.fit.rules import misfits
from warmpod.launcher.log.stages import Failure


def check_fit(boot: Boot, environment: Mapping[str, str]) -> threading.Thread:
    """In a thread: the files may have to come over a network first (lazily pulled images)."""
    thread = threading.Thread(target=_check, args=(boot, environment), name="fit", daemon=True)
    thread.start()
    return thread


def _check(boot: Boot, environment: Mapping[str, str]) -> None:
    parts = read_parts(environment)
    if not parts.torch and not parts.vllm:
        return  # no vLLM, or one where this Python does not find it
    found = misfits(parts)
    boot.tell("fit", **asdict(parts), misfits=[asdict(misfit) for misfit in found])
    for misfit in found:
        say(f"{misfit.reason}: {'' if misfit.sure else 'perhaps: '}{misfit.text}")
        if misfit.sure:
            boot.listener.note(Failure(misfit.reason, misfit.text))
