import json
from pathlib import Path

import pytest

from warmpod.agent.config import AgentConfig, CacheConfig, ConfigError, Medium
from warmpod.protocol import AGENT_CONFIG_VARIABLE

IN_PLACE = {"name": "tiny", "source": "/images/model", "key": "abc", "target": "/weights/tiny"}
REMOTE = {
    "name": "draft",
    "source": "/run/warmpod-staged/hf-1",
    "key": "hf-1",
    "remote": {"huggingFace": {"repository": "org/draft", "revision": "main"}},
    "credentials": "/run/warmpod-credentials/draft",
}
GOOD = {
    "model": "tiny",
    "model_uid": "u-1",
    "medium": "NodeMemory",
    "node_root": "/run/warmpod-weights",
    "stage_root": "/run/warmpod-staged",
    "port": 9181,
    "look_seconds": 10,
    "scrub_seconds": None,
    "sets": [IN_PLACE, REMOTE],
}


def read(document: object) -> AgentConfig:
    return AgentConfig.from_environment({AGENT_CONFIG_VARIABLE: json.dumps(document)})


def test_reads_what_the_operator_writes() -> None:
    config = read(GOOD)
    assert config.medium is Medium.NODE_MEMORY
    assert (config.look_seconds, config.scrub_seconds) == (10.0, None)
    first, second = config.sets
    assert (first.source, first.target) == (Path("/images/model"), Path("/weights/tiny"))
    assert (first.remote, first.credentials, first.verify) == (None, None, None)
    assert second.remote == REMOTE["remote"]
    assert second.credentials == Path("/run/warmpod-credentials/draft")


def test_the_store_of_compiled_code() -> None:
    assert read(GOOD).compile_cache is None
    cache = {"root": "/run/warmpod-cache", "bytes": 7, "stores": "/run/warmpod-caches"}
    config = read(GOOD | {"compile_cache": cache})
    expected = CacheConfig(Path("/run/warmpod-cache"), 7, Path("/run/warmpod-caches"))
    assert config.compile_cache == expected


def test_fields_of_a_newer_operator_are_ignored() -> None:
    later = [IN_PLACE | {"later": 1}, REMOTE]
    assert read(GOOD | {"later": 1, "sets": later}) == read(GOOD)


def test_absent_and_null_fields_have_defaults() -> None:
    short = {k: v for k, v in GOOD.items() if k not in ("port", "look_seconds", "node_root")}
    assert read(short | {"node_root": None}) == read(GOOD)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a JSON object"),
        (GOOD | {"model": ""}, r"\.model: is missing"),
        (GOOD | {"medium": "Floppy"}, r"\.medium: 'Floppy'"),
        (GOOD | {"port": "x"}, r"\.port:"),
        (GOOD | {"sets": []}, r"\.sets: is missing"),
        (GOOD | {"sets": {}}, r"\.sets: must be a list"),
        (GOOD | {"sets": [7]}, r"\.sets\[0\]: must be a JSON object"),
        (GOOD | {"sets": [IN_PLACE, {"name": "x"}]}, r"\.sets\[1\]\.source: is missing"),
        (GOOD | {"sets": [REMOTE | {"remote": "hf"}]}, r"\.sets\[0\]\.remote: must be a JSON"),
        (GOOD | {"sets": [REMOTE | {"source": "/x"}]}, r"\.source: must be the key below"),
        (GOOD | {"sets": [IN_PLACE | {"key": ""}]}, r"\.key: must be one plain directory name"),
        (GOOD | {"sets": [IN_PLACE | {"key": "../x"}]}, r"\.key: must be one plain directory"),
        (GOOD | {"sets": [IN_PLACE | {"key": ".refs"}]}, r"\.key: must be one plain directory"),
        (
            GOOD | {"sets": [IN_PLACE | {"lookup": 7}]},
            r"\.sets\[0\]\.lookup: must be a JSON object",
        ),
        (GOOD | {"sets": [IN_PLACE | {"lookup": {"root": "/x"}}]}, r"\.lookup: 'path' is missing"),
        (GOOD | {"compile_cache": {"root": "/x"}}, r"\.compile_cache: 'bytes' is missing"),
        (GOOD | {"sets": [IN_PLACE, IN_PLACE]}, r"\.sets: a name occurs twice"),
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
