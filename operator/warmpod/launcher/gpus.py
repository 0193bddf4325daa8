"""Which GPUs the container was given. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# The device plugin sets the first one, to UUIDs; the second one may be set by anybody.
_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
# Values that name no GPU. CUDA images come with `all`, also where there is no GPU.
_NAMELESS = frozenset({"", "all", "none", "void", "-1"})


def gpus(environment: Mapping[str, str]) -> list[str]:
    """UUIDs or indices, as the first variable that names any has them."""
    for variable in _VARIABLES:
        words = [word.strip() for word in environment.get(variable, "").split(",")]
        named = [word for word in words if word.lower() not in _NAMELESS]
        if named:
            return named
    return []
