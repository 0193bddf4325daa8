import base64
import json
import os
from pathlib import Path

import pytest

from warmpod.registry.credentials import Credential, matches, of_pull_secrets, of_user
from warmpod.registry.errors import RegistryError


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def auth(pair: str) -> dict[str, str]:
    return {"auth": base64.b64encode(pair.encode()).decode()}


def docker_config(tmp_path: Path, document: object) -> dict[str, str]:
    write(tmp_path / "docker" / "config.json", document)
    return {"DOCKER_CONFIG": str(tmp_path / "docker"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}


@pytest.mark.parametrize(
    ("key", "name", "fits"),
    [
        ("reg.example.com", "reg.example.com/team/x", True),
        ("https://reg.example.com", "reg.example.com/team/x", True),
        ("https://reg.example.com/v2/", "reg.example.com/team/x", True),
        ("reg.example.com:5000", "reg.example.com/x", False),
        ("reg.example.com/team", "reg.example.com/team/x", True),
        ("reg.example.com/team", "reg.example.com/teams/x", False),
        ("*.example.com", "reg.example.com/x", True),
        ("*.example.com", "a.reg.example.com/x", False),
        ("https://index.docker.io/v1/", "docker.io/library/x", True),
        ("docker.io", "ghcr.io/x", False),
    ],
)
def test_keys_are_matched_as_the_kubelet_does(key: str, name: str, fits: bool) -> None:
    assert matches(key, name) is fits


def test_what_docker_login_writes(tmp_path: Path) -> None:
    environment = docker_config(tmp_path, {"auths": {"reg.example.com": auth("me:pass:word")}})
    assert of_user("reg.example.com/x", environment) == Credential("me", "pass:word")
    assert of_user("other.example.com/x", environment) is None


def test_an_identity_token_comes_before_the_password(tmp_path: Path) -> None:
    entry = auth("00000000-0000-0000-0000-000000000000:") | {"identitytoken": "tok"}
    environment = docker_config(tmp_path, {"auths": {"reg.example.com": entry}})
    found = of_user("reg.example.com/x", environment)
    assert found is not None
    assert found.identity_token == "tok"
    assert "tok" not in repr(found)


def test_podman_s_file_is_read_too(tmp_path: Path) -> None:
    write(
        tmp_path / "run" / "containers" / "auth.json", {"auths": {"reg.example.com": auth("a:b")}}
    )
    environment = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert of_user("reg.example.com/x", environment) == Credential("a", "b")


def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "docker-credential-test"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, 'read s; echo "{\\"Username\\":\\"$s\\",\\"Secret\\":\\"x\\"}"')
    environment = docker_config(tmp_path, {"credHelpers": {"reg.example.com": "test"}})
    assert of_user("reg.example.com/x", environment) == Credential("reg.example.com", "x")


def test_a_helper_that_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, 'echo "credentials not found in native keychain"; exit 1')
    environment = docker_config(tmp_path, {"credsStore": "test"})
    assert of_user("reg.example.com/x", environment) is None


def test_a_helper_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo locked; exit 1")
    environment = docker_config(tmp_path, {"credsStore": "test"})
    with pytest.raises(RegistryError, match="docker-credential-test failed: locked"):
        of_user("reg.example.com/x", environment)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    environment = docker_config(tmp_path, {})
    (tmp_path / "docker" / "config.json").write_text("{")
    with pytest.raises(RegistryError, match=r"docker/config\.json"):
        of_user("reg.example.com/x", environment)


def test_pull_secrets_of_both_forms_the_longest_key_first(tmp_path: Path) -> None:
    write(
        tmp_path / "0" / ".dockerconfigjson",
        {"auths": {"reg.example.com": auth("all:1"), "reg.example.com/team": auth("team:2")}},
    )
    write(tmp_path / "1" / ".dockercfg", {"reg.example.com": auth("old:3")})
    directories = [tmp_path / "0", tmp_path / "1", tmp_path / "absent"]
    found = of_pull_secrets(directories, "reg.example.com/team/x")
    assert [credential.username for credential in found] == ["team", "all", "old"]
