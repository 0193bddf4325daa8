"""What a profile adds to an engine: only what its image has, and has not set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warmpod.launcher.invocation.command import Command
from warmpod.launcher.invocation.defaults import Defaults, read_defaults, with_defaults

WANTED = Defaults([["--performance-mode=throughput"], ["--sizes", "1", "2"]], {"VLLM_PLAN": "1"})
ALL = {"engine/arg_utils.py": '"--performance-mode", "--sizes"', "envs.py": '"VLLM_PLAN"'}


def image(monkeypatch: pytest.MonkeyPatch, site: Path, sources: dict[str, str]) -> None:
    """An image whose vLLM must not be imported."""
    for name, text in sources.items():
        path = site / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if sources:
        (site / "vllm/__init__.py").write_text("raise AssertionError('vLLM was imported')")
        metadata = site / "vllm-0.32.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Name: vllm\nVersion: 0.32.0\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])


def command(**environment: str) -> Command:
    return Command(["vllm", "serve", "/models/m", "--port=1"], environment)


@pytest.mark.parametrize(
    ("sources", "environment", "words", "left_out"),
    [
        pytest.param(
            ALL,
            {},
            ["--performance-mode=throughput", "--sizes", "1", "2", "VLLM_PLAN=1"],
            {},
            id="all",
        ),
        pytest.param(
            ALL | {"engine/arg_utils.py": '"--sizes"'},
            {},
            ["--sizes", "1", "2", "VLLM_PLAN=1"],
            {"--performance-mode": "vLLM 0.32.0 does not have it"},
            id="an older vLLM",
        ),
        pytest.param(
            ALL | {"envs.py": ""},
            {},
            ["--performance-mode=throughput", "--sizes", "1", "2"],
            {"VLLM_PLAN": "vLLM 0.32.0 does not have it"},
            id="no such variable",
        ),
        pytest.param(
            ALL,
            {"VLLM_PLAN": "0"},
            ["--performance-mode=throughput", "--sizes", "1", "2"],
            {"VLLM_PLAN": "the engine image sets it to '0'"},
            id="the image decides",
        ),
        pytest.param(
            {},
            {},
            [],
            dict.fromkeys(
                ("--performance-mode", "--sizes", "VLLM_PLAN"),
                "python3 of the engine image finds no vLLM",
            ),
            id="no vLLM",
        ),
    ],
)
def test_what_is_added(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sources: dict[str, str],
    environment: dict[str, str],
    words: list[str],
    left_out: dict[str, str],
) -> None:
    image(monkeypatch, tmp_path, sources)
    added = with_defaults(command(**environment), WANTED)
    assert added.facts == {"defaults": {"added": words, "left_out": left_out}}
    arguments = [word for word in words if not word.startswith("VLLM_")]
    assert added.argv == ["vllm", "serve", "/models/m", *arguments, "--port=1"]
    variables = {"VLLM_PLAN": "1"} if "VLLM_PLAN=1" in words else {}
    assert added.environment == environment | variables


@pytest.mark.parametrize(
    "text",
    ["[]", '{"arguments": [[]]}', '{"arguments": ["--a"]}', '{"environment": {"A": 1}}'],
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(not a|arguments is|environment is)"):
        read_defaults(text)
