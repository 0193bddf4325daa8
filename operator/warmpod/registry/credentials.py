"""Credentials for a registry, where container tools and Kubernetes keep them.

Keys of `auths` are matched as the kubelet does: `host[:port][/path]`, a scheme is ignored, a host
may hold `*`, and the longest path wins.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from warmpod.registry.errors import RegistryError

# Names that Docker's own registry has in configuration files.
DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
HELPER_SECONDS = 30
# The user name by which a credential helper says that the secret is an identity token.
TOKEN_USER = "<token>"  # noqa: S105
PULL_SECRET_NAMES = (".dockerconfigjson", ".dockercfg")


@dataclass(frozen=True)
class Credential:
    """User name and password, or an identity token. The secrets stay out of logs."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def of_user(name: str, environment: Mapping[str, str] = os.environ) -> Credential | None:
    """What `docker login`, `podman login` or a credential helper has for `host/repository`.

    None when there is nothing. Raises RegistryError when a file or a helper cannot be used."""
    for path in config_files(environment):
        document = _read(path)
        helper = _helper(document, name.partition("/")[0])
        found = _ask_helper(helper, name.partition("/")[0]) if helper else None
        if found is not None:
            return found
        if matching := _matching(document.get("auths"), name):
            return matching[0]
    return None


def of_pull_secrets(directories: Iterable[Path], name: str) -> list[Credential]:
    """What mounted pull secrets hold for `host/repository`, in the order to try them."""
    found: list[Credential] = []
    for directory in directories:
        for file in PULL_SECRET_NAMES:
            document = _read(directory / file)
            # The older form is what stands under `auths` in the newer one.
            found += _matching(document.get("auths", document), name)
    return found


def config_files(environment: Mapping[str, str]) -> Sequence[Path]:
    """Docker's file, then podman's."""
    home = Path(environment.get("HOME") or Path.home())
    docker = Path(environment.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
    if named := environment.get("REGISTRY_AUTH_FILE"):
        return (docker, Path(named))
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return (docker, Path(runtime) / "containers" / "auth.json")


def _read(path: Path) -> dict[str, Any]:
    """An absent file holds nothing."""
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path} cannot be read: {error}") from error
    return document if isinstance(document, dict) else {}


def _helper(document: Mapping[str, Any], host: str) -> str:
    helpers = document.get("credHelpers")
    if isinstance(helpers, dict):
        for key in _aliases(host):
            if isinstance(helpers.get(key), str):
                return str(helpers[key])
    store = document.get("credsStore")
    return store if isinstance(store, str) else ""


def _ask_helper(helper: str, host: str) -> Credential | None:
    program = f"docker-credential-{helper}"
    server = "https://index.docker.io/v1/" if host in DOCKER_HUB else host
    try:
        answer = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=HELPER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RegistryError(f"{program}, which the docker configuration names: {error}") from error
    if answer.returncode:
        if "not found" in answer.stdout + answer.stderr:
            return None
        raise RegistryError(f"{program} failed: {(answer.stdout + answer.stderr).strip()}")
    try:
        document = json.loads(answer.stdout)
        username, secret = str(document["Username"]), str(document["Secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise RegistryError(f"{program} gave no user name and secret") from error
    if username == TOKEN_USER:
        return Credential(identity_token=secret)
    return Credential(username, secret)


def _matching(auths: object, name: str) -> list[Credential]:
    """The longest key first, because it was written for fewer repositories."""
    if not isinstance(auths, dict):
        return []
    keys = [key for key in auths if isinstance(auths[key], dict) and matches(key, name)]
    found = (_credential(auths[key]) for key in sorted(keys, key=lambda key: (-len(key), key)))
    return [credential for credential in found if credential is not None]


def matches(key: str, name: str) -> bool:
    """Whether a key of `auths` is meant for `host/repository`."""
    wanted_host, _, wanted_path = key.partition("://")[2 if "://" in key else 0].partition("/")
    host, _, repository = name.partition("/")
    if host in DOCKER_HUB:
        # Docker writes the address of the API's first version here.
        return wanted_host in DOCKER_HUB
    if wanted_host.count(".") != host.count(".") or not fnmatchcase(host, wanted_host):
        return False
    # Some tools add the path of the API.
    path = "" if wanted_path.rstrip("/") in ("v1", "v2") else wanted_path.rstrip("/")
    return not path or repository == path or repository.startswith(f"{path}/")


def _credential(entry: Mapping[str, Any]) -> Credential | None:
    token = str(entry.get("identitytoken") or "")
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if not username and (encoded := entry.get("auth")):
        try:
            pair = base64.b64decode(str(encoded)).decode().rstrip("\0")
        except (binascii.Error, UnicodeDecodeError):
            return None
        username, _, password = pair.partition(":")
    if token:
        return Credential(username, identity_token=token)
    return Credential(username, password) if username else None


def _aliases(host: str) -> Sequence[str]:
    if host in DOCKER_HUB:
        return (*DOCKER_HUB, "https://index.docker.io/v1/")
    return (host, f"https://{host}")
