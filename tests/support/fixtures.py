"""Fixtures of every layer that needs a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.api import Api


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.fail("set KUBECONFIG, for example to the output of `make -s kubeconfig`")
    return Path(path)


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> Api:
    return Api(kubeconfig)
