"""The boot that comes before all others when settings are compared: the same engine, set otherwise.

The operator writes its command as JSON in which the kubelet finds no $(NAME) to expand, because
a value with quotes would break the JSON. So the launcher expands the arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from warmpod.launcher.invocation.command import Command

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def read_argv(text: str) -> list[str]:
    """Raises ValueError."""
    words = json.loads(text)
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise ValueError("not a JSON list of texts with at least the program's name")
    return words


def read_environment(text: str) -> dict[str, str]:
    """Raises ValueError."""
    variables = json.loads(text)
    if not isinstance(variables, dict) or not all(isinstance(v, str) for v in variables.values()):
        raise ValueError("not a JSON object of texts")
    return variables


def reference_command(
    argv: Sequence[str],
    variables: Mapping[str, str],
    environment: Mapping[str, str],
    loader: str | None = None,
) -> Command:
    """The variables are taken as they are, over those of the container."""
    merged = {**environment, **variables}
    return Command([expanded(word, merged) for word in argv], merged, True, loader)


def expanded(word: str, variables: Mapping[str, str]) -> str:
    """Expand $(NAME) as the kubelet does: an unknown name stays, and $$ is a dollar."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        return variables.get(found[1], found[0])

    return _REFERENCE.sub(value, word)
