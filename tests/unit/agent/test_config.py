import json
from pathlib import Path

import pytest

from warmpod.agent.config import AgentConfig, ConfigError, Medium
from warmpod.protocol import AGENT_CONFIG_VARIABLE

GOOD = {
    "model": "tiny",
    "model_uid": "u-1",
    "revision": "0123456789",
    "medium": "NodeMemory",
    "source": "/images/model",
    "node_root": "/run/warmpod-weights",
    "key": "abc",
    "port": 9181,
    "scrub_seconds": 30,
}


def read(document: object) -> AgentConfig:
    return AgentConfig.from_environment({AGENT_CONFIG_VARIABLE: json.dumps(document)})


def test_reads_what_the_operator_writes() -> None:
    config = read(GOOD)
    assert config.medium is Medium.NODE_MEMORY
    assert config.source == Path("/images/model")
    assert config.scrub_seconds == 30.0


def test_fields_of_a_newer_operator_are_ignored() -> None:
    assert read(GOOD | {"later": 1}) == read(GOOD)


def test_absent_and_null_fields_have_defaults() -> None:
    short = {k: v for k, v in GOOD.items() if k not in ("port", "scrub_seconds", "node_root")}
    assert read(short | {"node_root": None}) == read(GOOD)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a JSON object"),
        (GOOD | {"model": ""}, "model is missing"),
        (GOOD | {"medium": "Floppy"}, "medium: 'Floppy'"),
        (GOOD | {"port": "x"}, "port:"),
        (GOOD | {"key": ""}, "key must be one plain directory name"),
        (GOOD | {"key": "../x"}, "key must be one plain directory name"),
        (GOOD | {"key": ".refs"}, "key must be one plain directory name"),
    ],
)
def test_names_the_wrong_field(document: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(document)


def test_says_that_the_variable_is_absent_or_not_json() -> None:
    with pytest.raises(ConfigError, match="is not set"):
        AgentConfig.from_environment({})
    with pytest.raises(ConfigError, match="is not JSON"):
        AgentConfig.from_environment({AGENT_CONFIG_VARIABLE: "{"})
