from pathlib import Path

import pytest

from warmpod.cli.destination import DestinationError, parse


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("./out", "out"),
        ("../out", "../out"),
        ("/srv/out", "/srv/out"),
        ("oci:out", "out"),
        ("oci:/srv/out", "/srv/out"),
        ("..", ".."),
    ],
)
def test_directories(text: str, path: str) -> None:
    assert parse(text) == Path(path)


@pytest.mark.parametrize(
    "text",
    [
        "registry.example.com/models/x:1.0",
        "registry.example.com:5000/x:a_b-c.D",
        "localhost/x:1",
        "127.0.0.1:5000/x:1",
        "docker.io/me/x__y:1",
    ],
)
def test_references(text: str) -> None:
    assert parse(text) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("out", r"\./out"),
        ("models/x:1.0", r"docker\.io/models/x:1\.0"),
        ("registry.example.com", "begins with its registry"),
        ("registry.example.com/x", r"registry\.example\.com/x:1\.0"),
        ("registry.example.com/x@sha256:00", "name a tag"),
        ("registry.example.com/X:1", "lower case"),
        ("registry.example.com/x:", "not a reference"),
        ("", "directory"),
    ],
)
def test_what_could_be_either_is_refused(text: str, says: str) -> None:
    with pytest.raises(DestinationError, match=says):
        parse(text)


def test_a_folder_that_looks_like_a_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.d").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DestinationError, match=r"\./models\.d/x:1"):
        parse("models.d/x:1")
