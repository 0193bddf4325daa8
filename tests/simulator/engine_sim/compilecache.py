"""vLLM's compile cache: its directory, its key, and whether what lies there can be used."""

from __future__ import annotations

import enum
import hashlib
import json
from pathlib import Path

from engine_sim.knobs import VERSION
from engine_sim.setup import Setup

ARTEFACT = "simulated AOT artefact"
ARTEFACT_BYTES = 64 * 1024


class Found(enum.Enum):
    """What the cache has for this engine."""

    HIT = "hit"
    MISS = "miss"
    STALE = "stale"


class CompileCache:
    """The cache of one engine. Without VLLM_CACHE_ROOT it is always empty."""

    def __init__(self, setup: Setup) -> None:
        root = setup.switches.cache_root
        self._key = key_of(setup)
        self._root = root and root / "torch_compile_cache"

    @property
    def path(self) -> Path:
        """The artefact, where vLLM has it."""
        root = self._root or Path("/root/.cache/vllm/torch_compile_cache")
        return root / "torch_aot_compile" / self._key / "rank_0_0" / "model"

    @property
    def directory(self) -> Path:
        """The directory that vLLM names in its log."""
        return self.path.parents[3] / self._key[:10] / "rank_0_0" / "backbone"

    def look(self) -> Found:
        """Whether the artefact is there and whole."""
        if self._root is None or not self.path.exists():
            return Found.MISS
        whole = self.path.read_text(errors="replace").startswith(f"{ARTEFACT} {self._key}")
        return Found.HIT if whole else Found.STALE

    def save(self) -> None:
        """Keep what was compiled; the file appears whole or not at all."""
        if self._root is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".tmp")
        partial.write_text(f"{ARTEFACT} {self._key}".ljust(ARTEFACT_BYTES))
        partial.rename(self.path)


def key_of(setup: Setup) -> str:
    """Depends on what vLLM's key does: the model's path, arguments, hashed environment, version."""
    arguments = setup.arguments
    factors = {
        "version": VERSION,
        "model": arguments.model,
        "max_model_len": arguments.max_model_len,
        "max_num_seqs": arguments.max_num_seqs,
        "max_num_batched_tokens": arguments.max_num_batched_tokens,
        "max_logprobs": arguments.max_logprobs,
        "enable_lora": arguments.enable_lora,
        "environment": setup.switches.hashed,
    }
    return hashlib.sha256(json.dumps(factors, sort_keys=True).encode()).hexdigest()
