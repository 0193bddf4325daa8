"""`health.lua` under the Lua version and the few libraries that Argo CD gives it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from unit.install.tools import ROOT, kustomize

FOLDER = ROOT / "manifests/argocd"
CASES = yaml.safe_load((FOLDER / "health_test.yaml").read_text())["tests"]
# Argo CD opens the base, package, table and (a part of) the os library; see its util/lua.
FORBIDDEN = ("string", "math", "io", "os", "debug", "coroutine")


def health(path: Path) -> dict[str, Any]:
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    for library in FORBIDDEN:
        lua.globals()[library] = None
    lua.globals()["obj"] = lua.table_from(yaml.safe_load(path.read_text()), recursive=True)
    return dict(lua.execute((FOLDER / "health.lua").read_text()))


@pytest.mark.parametrize("case", CASES, ids=[Path(case["inputPath"]).stem for case in CASES])
def test_health(case: dict[str, Any]) -> None:
    assert health(FOLDER / case["inputPath"]) == case["healthStatus"]


def test_every_example_has_a_case() -> None:
    examples = {f"testdata/{path.name}" for path in (FOLDER / "testdata").iterdir()}
    assert examples == {case["inputPath"] for case in CASES}


def test_config_map_has_the_key_argo_cd_looks_for() -> None:
    config = kustomize(FOLDER)["ConfigMap", "argocd", "argocd-cm"]
    assert config["data"] == {
        "resource.customizations.health.warmpod.io_WarmModel": (FOLDER / "health.lua").read_text()
    }
