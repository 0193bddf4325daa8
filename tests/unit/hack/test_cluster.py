"""The parts of the local cluster's program that need no root."""

import json
import os
import string
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hack" / "cluster"))

from clusterlib import addons, commands, components, rebooting, settings
from clusterlib.image import Image

ROOT = Path(__file__).resolve().parents[3]
NO_DOTS = str.maketrans("./-", "___")


def test_every_template_can_be_filled_in():
    values = settings.template_values() | {"ca_bundle": "Y2E="}
    directories = (settings.CONFIG_DIR, settings.ADD_ONS_DIR)
    templates = [path for top in directories for path in top.rglob("*") if path.is_file()]
    assert templates
    for template in templates:
        text = string.Template(template.read_text()).substitute(values)
        if template.suffix == ".yaml":
            assert all(yaml.safe_load_all(text)), template


def test_names_of_network_devices_fit_the_kernel():
    assert len(settings.NODE_DEVICE) <= 15


def test_socket_paths_fit_the_kernel():
    assert len(os.fsencode(settings.CONTAINERD_SOCKET)) < 108


def test_a_missing_program_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(settings, "BIN_DIR", tmp_path)
    with pytest.raises(settings.ClusterError, match=r"etcd is missing: run .*/build first"):
        components.etcd()


def test_blobs_of_the_image_cache_outlive_the_registry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    registry = tmp_path / "registry"
    (registry / "sha256").mkdir(parents=True)
    (tmp_path / "cached").write_text("of an image of the tree")
    os.link(tmp_path / "cached", registry / "sha256" / "kept")
    (registry / "sha256" / "pushed").write_text("by a test")
    monkeypatch.setattr(settings, "REGISTRY_DIR", registry)
    commands._keep_shared_blobs()
    assert [path.name for path in registry.glob("*/*")] == ["kept"]


def test_the_first_start_makes_the_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(settings, "REGISTRY_DIR", tmp_path / "registry")
    commands._keep_shared_blobs()
    assert (tmp_path / "registry").is_dir()


def test_after_a_reboot_no_receipt_is_of_this_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    receipt, other = tmp_path / "model" / "receipt.json", tmp_path / "model" / "manifest.json"
    receipt.parent.mkdir()
    receipt.write_text(json.dumps({"boots": ["this"], "files": ["a"]}))
    other.write_text(json.dumps({"files": ["a"]}))
    monkeypatch.setattr(rebooting, "RECEIPTS", ((tmp_path, "**/*.json"),))
    rebooting._age_receipts()
    aged = json.loads(receipt.read_text())
    assert "this" not in aged["boots"]
    assert aged["files"] == ["a"]
    assert json.loads(other.read_text()) == {"files": ["a"]}


def test_every_add_on_has_its_files_and_is_built_on_demand_only():
    assert set(addons.ADD_ONS) == {path.name for path in settings.ADD_ONS_DIR.iterdir()}
    build = (settings.SOURCE_DIR / "build").read_text()
    assert build.count("on_demand=True") == len(addons.ADD_ONS)
    for name in addons.ADD_ONS:
        assert (settings.ADD_ONS_DIR / name / "manifests").is_dir()
        assert (settings.SOURCE_DIR / "modules" / name / "go.mod").exists()


def test_an_add_on_that_is_not_built_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(settings, "BIN_DIR", tmp_path)
    remedy = r"prometheus is missing: run .*/build prometheus first"
    with pytest.raises(settings.ClusterError, match=remedy):
        addons.prometheus()


def test_prometheus_scrapes_what_the_pod_monitor_does():
    """Under the same labels, or what is tested here is not what users get."""
    monitor = yaml.safe_load((ROOT / "manifests/monitoring/pods.yaml").read_text())
    config = yaml.safe_load((settings.ADD_ONS_DIR / "prometheus/prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    rules = job["relabel_configs"]
    copied = {rule.get("target_label") for rule in rules}
    wanted = {label.translate(NO_DOTS) for label in monitor["spec"]["podTargetLabels"]}
    assert wanted <= copied
    (ports,) = [r["regex"] for r in rules if r.get("action") == "keep"]
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert ports == f"({'|'.join(endpoint['port'] for endpoint in endpoints)})"


def test_optional_processes_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(settings.LEFT_OUT_VARIABLE, raising=False)
    assert commands._wanted(commands.PROCESSES) == commands.PROCESSES
    monkeypatch.setenv(settings.LEFT_OUT_VARIABLE, "kwok metrics-server")
    left_out = commands.PROCESSES.keys() - commands._wanted(commands.PROCESSES).keys()
    assert left_out == {"kwok", "metrics-server"}


def test_a_process_that_is_needed_cannot_be_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(settings.LEFT_OUT_VARIABLE, "kwok etcd")
    with pytest.raises(settings.ClusterError, match="names etcd: choose from kwok, metrics-server"):
        settings.left_out()


def test_an_image_has_its_links_and_its_environment(tmp_path: Path):
    file = tmp_path / "passwd"
    file.write_text("root")
    image = Image("a/b:1", {"/etc/passwd": file}, ["x"], {"A": "b c"}, links={"bin": "usr/bin"})
    image.write_archive(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        blobs = [archive.extractfile(name) for name in archive.getnames() if "sha256/" in name]
        config, layer, _ = (blob.read() for blob in blobs if blob)
    assert json.loads(config)["config"] == {"Entrypoint": ["x"], "Env": ["A=b c"]}
    (tmp_path / "layer").write_bytes(layer)
    with tarfile.open(tmp_path / "layer") as files:
        assert files.getnames() == ["etc/passwd", "bin"]
        assert files.getmember("bin").linkname == "usr/bin"
