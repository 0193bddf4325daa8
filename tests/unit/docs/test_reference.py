"""The reference is written by hand, and this keeps it complete: whoever adds a field or a reason
is told which page lacks it. Links and commands of all pages must lead somewhere, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod import reasons
from warmpod.api.warmmodel import WarmModel

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "operator" / "warmpod"
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "manifests/**/*.md", "charts/**/*.md")
    for page in ROOT.glob(pattern)
)


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def schema_fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        yield below
        yield from schema_fields(field, below)
        yield from schema_fields(field.get("items", {}), f"{below}[]")


def crd_fields() -> list[str]:
    crd = yaml.safe_load((ROOT / "crds" / "warmpod.io_warmmodels.yaml").read_text())
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return list(schema_fields(root["properties"]["spec"], "spec"))


def text_of(name: str) -> str:
    return (DOCS / name).read_text()


def test_every_field_of_the_spec_is_described() -> None:
    page = text_of("warmmodel.md")
    missing = [field for field in crd_fields() if f"| `{field}` |" not in page]
    assert missing == []


def test_no_described_field_is_unknown() -> None:
    described = set(re.findall(r"^\| `(spec\.[^`]+)` \|", text_of("warmmodel.md"), re.MULTILINE))
    # The table of rules names fields, too, in words of its own.
    assert {field for field in described if " " not in field} - set(crd_fields()) == set()


def test_every_reason_is_described() -> None:
    page = text_of("conditions.md")
    assert [reason for reason in reasons.ALL if f"| `{reason}` |" not in page] == []


def test_every_metric_is_described() -> None:
    page = text_of("metrics.md")
    sources = "".join(path.read_text() for path in PACKAGE.rglob("metrics.py"))
    names = set(re.findall(r'"(warmpod_[a-z_]+)"', sources))
    assert len(names) > 10
    # prometheus-client adds the ending to the name of a counter.
    assert {
        name for name in names if f"`{name}`" not in page and f"`{name}_total`" not in page
    } == set()


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in headings(found), f"{page.name}: {target}"


def commands(page: Path) -> str:
    """What a reader may copy: shell blocks, and `make …` inside a sentence."""
    found = re.findall(r"```sh\n(.*?)```|`(make [^`\n]+)`", page.read_text(), re.DOTALL)
    lines = [line for block, inline in found for line in (block or inline).splitlines()]
    return "\n".join(line.partition("#")[0] for line in lines)


@every_page
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    used = re.findall(r"(?:^|[\s(])make (?:-s )?([a-z][a-z-]*)", commands(page))
    assert [target for target in used if target not in targets] == []


def samples() -> Iterator[tuple[str, Any]]:
    for page in PAGES:
        for number, block in enumerate(
            re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        ):
            for document in yaml.safe_load_all(block):
                if isinstance(document, dict) and document.get("kind") == "WarmModel":
                    yield f"{page.name}-{number}", document


@pytest.mark.parametrize(
    "document", [pytest.param(document, id=name) for name, document in samples()]
)
def test_sample_warm_models_are_valid(document: dict[str, Any]) -> None:
    document["metadata"] |= {"uid": "u", "namespace": "models"}
    WarmModel.parse(document)
