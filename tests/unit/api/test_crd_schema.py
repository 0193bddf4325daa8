"""The CRD keeps Kubernetes' API conventions, as kube-api-linter would check them for Go types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmpod.api import crd
from warmpod.api.crd import to_yaml

FILE = Path(__file__).parents[3] / "crds" / "warmpod.io_warmmodels.yaml"

VERSION = crd.crd()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]

Node = dict[str, Any]


def walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from walk(node["additionalProperties"], f"{path}{{}}")


NODES = [
    *walk(ROOT["properties"]["spec"], "spec"),
    *walk(ROOT["properties"]["status"], "status"),
]
ROOTED = [*NODES, ("", ROOT)]


def of_type(type_: str) -> list[tuple[str, Node]]:
    return [(path, node) for path, node in NODES if node.get("type") == type_]


def test_the_file_is_what_the_models_say() -> None:
    assert FILE.read_text() == to_yaml(), (
        "run: PYTHONPATH=operator python -m warmpod.api.crd > crds/warmpod.io_warmmodels.yaml"
    )


def test_every_string_is_bounded() -> None:
    unbounded = [p for p, n in of_type("string") if "maxLength" not in n and "enum" not in n]
    assert unbounded == []


def test_every_integer_is_bounded() -> None:
    assert [p for p, n in of_type("integer") if not {"minimum", "maximum"} <= n.keys()] == []


def test_every_list_is_bounded_and_says_how_it_merges() -> None:
    lists = of_type("array")
    assert [p for p, n in lists if "maxItems" not in n] == []
    assert [p for p, n in lists if "x-kubernetes-list-type" not in n] == []


def test_keys_of_keyed_lists_are_required_fields() -> None:
    for path, node in of_type("array"):
        keys = node.get("x-kubernetes-list-map-keys", [])
        assert (node["x-kubernetes-list-type"] == "map") == bool(keys), path
        assert set(keys) <= set(node["items"].get("required", [])), path


def test_every_map_is_bounded() -> None:
    maps = [(p, n) for p, n in of_type("object") if "additionalProperties" in n]
    assert maps
    assert [p for p, n in maps if "maxProperties" not in n] == []


def test_every_object_says_what_is_in_it() -> None:
    known = {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"}
    assert [p for p, n in of_type("object") if not known & n.keys()] == []


def test_no_number_is_a_float_and_no_field_is_without_type() -> None:
    assert of_type("number") == []
    typed = ("type", "x-kubernetes-int-or-string")
    assert [p for p, n in NODES if not any(key in n for key in typed)] == []


def test_every_field_is_described_in_sentences() -> None:
    fields = [(p, n) for p, n in NODES if not p.endswith(("[]", "{}"))]
    assert [p for p, n in fields if not re.search(r"[\w)]\.$", n.get("description", ""))] == []


def test_names_follow_the_conventions() -> None:
    names = {path.rsplit(".", 1)[-1] for path, _ in NODES if not path.endswith(("[]", "{}"))}
    assert [name for name in names if not re.fullmatch(r"[a-z][A-Za-z0-9]*", name)] == []
    assert not names & {"phase", "state_machine", "duration", "timestamp"}
    assert [n for n in names if re.search(r"(Timestamp|Duration|Millis|Secs)$", n)] == []


def test_nothing_is_nullable_and_no_keyword_of_another_schema_is_left() -> None:
    foreign = {"nullable", "$ref", "title", "const", "exclusiveMinimum", "prefixItems", "oneOf"}
    assert [p for p, n in NODES if foreign & n.keys()] == []
    assert [p for p, n in NODES if n.get("additionalProperties") is False] == []


def test_conditions_are_the_first_field_of_the_status_and_keyed_by_type() -> None:
    status = ROOT["properties"]["status"]["properties"]
    assert next(iter(status)) == "conditions"
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    fields = status["conditions"]["items"]["properties"]
    assert fields["status"]["enum"] == ["True", "False", "Unknown"]
    assert "observedGeneration" in fields


def test_the_status_requires_nothing() -> None:
    assert "required" not in ROOT["properties"]["status"]
    assert ROOT["required"] == ["spec"]


def test_every_rule_names_its_field_and_a_remedy() -> None:
    rules = [rule for _, node in ROOTED for rule in node.get("x-kubernetes-validations", [])]
    assert len(rules) > 10
    for rule in rules:
        assert re.match(r"[a-z][A-Za-z]*[.\w]* ?", rule["message"]), rule
        remedy = r": (set|use|make|choose|leave|each)|must (be|end)"
        assert re.search(remedy, rule["message"]), rule
        assert len(rule["message"]) < 2048


def matched(node: Node) -> list[str]:
    """What the rules of a text want it to look like."""
    rules = [each["rule"] for each in node.get("x-kubernetes-validations", [])]
    found = (re.fullmatch(r"self[.]matches\(r?'(\^.*\$)'\)", rule) for rule in rules)
    return [match[1] for match in found if match]


PATTERNS = [node["pattern"] for _, node in NODES if "pattern" in node]
FORMS = [pattern for _, node in NODES for pattern in matched(node)]


def test_patterns_mean_the_same_to_go() -> None:
    """Go's engine has no look-around and no back-references."""
    assert PATTERNS
    assert len(FORMS) > 10
    patterns = [*PATTERNS, *FORMS]
    assert [p for p in patterns if "(?" in p or re.search(r"\\[1-9]", p)] == []
    assert [p for p in patterns if not (p.startswith("^") and p.endswith("$"))] == []
    assert [p for p in FORMS if "'" in p] == []


def test_who_types_a_value_is_never_answered_with_a_pattern() -> None:
    """But for one that only keeps out what nobody types."""
    typed = {p for p, n in NODES if "pattern" in n and p.startswith("spec.")}
    patterns = {n["pattern"] for p, n in NODES if p in typed}
    assert patterns == {r"^[^\x00]*$", r"^[^\x00-\x1f]+$"}


# what a person may write → what is refused, and what the message has as an example
TYPED = {
    "schedule[].cron": ("0 24 * * *", "0 8 * * MON-FRI"),
    "schedule[].timeZone": ("+02:00", "Europe/Berlin"),
    "schedule[].name": ("Day", "day-1"),
    "cost.perGpuHour": ("2,50", "2.50"),
    "model.image": ("m :1", "registry.example.com/models/llama:1"),
    "engine.image": ("", "registry.example.com/models/llama:1"),
    "compileCache.image": ("m :1", "registry.example.com/models/llama:1"),
    "model.servedName": ("a//b", "meta-llama/Llama-3.1-8B"),
    "model.huggingFace.repository": ("llama", "meta-llama/Llama-3.1-8B"),
    "model.huggingFace.revision": ("a/../b", "v1.0"),
    "model.huggingFace.endpoint": ("hub.example.com", "https://hub.example.com:8443"),
    "model.s3.endpoint": ("https://a b", "https://hub.example.com:8443"),
    "model.s3.uri": ("gs://models/llama", "s3://models/llama"),
    "model.s3.region": ("eu central", "eu-central-1"),
    "model.http.url": ("https://example.com:port/a.tar", "https://example.com/llama.tar"),
    "model.persistentVolumeClaim.path": ("/a", "models/llama"),
    "model.persistentVolumeClaim.claimName": ("C", ""),
    "model.nodePath.path": ("data", "/data/models/llama"),
    "additionalModels[].name": ("a.b", "day-1"),
    "engine.volumeMounts[].mountPath": ("data", "/data"),
    "warmup.skip[]": ("a b", "sampler/*"),
    "warmup.golden[].logprobs[]": ("1e-3", "-0.25"),
    "pod.volumes[].name": ("a.b", "day-1"),
    "pod.serviceAccountName": ("A-warmpod", ""),
}


@pytest.mark.parametrize(("path", "wrong", "right"), [(p, *each) for p, each in TYPED.items()])
def test_the_message_of_a_form_has_a_value_that_is_right(path: str, wrong: str, right: str) -> None:
    node = dict(NODES)[f"spec.{path}"]
    (pattern,) = matched(node)[:1]
    message = node["x-kubernetes-validations"][0]["message"]
    assert not re.fullmatch(pattern, wrong)
    assert right in message
    assert not right or re.fullmatch(pattern, right)


def test_what_stands_twice_is_written_twice() -> None:
    """Not every reader of a CRD knows YAML's references."""
    assert not re.search(r"[&*]id[0-9]", to_yaml())


def test_defaults_are_what_the_models_have() -> None:
    spec = ROOT["properties"]["spec"]["properties"]
    assert spec["replicas"]["default"] == 1
    assert spec["weights"]["default"] == {"medium": "Image", "loader": "Auto"}
    assert spec["warmup"]["default"] == {
        name: node["default"]
        for name, node in spec["warmup"]["properties"].items()
        if "default" in node
    }
    assert [p for p, n in NODES if n.get("default") in ([], "")] == []


def test_what_only_the_user_knows_is_required() -> None:
    """A model's source is one of several, which a rule tells."""
    spec = ROOT["properties"]["spec"]
    assert {"model", "engine"} <= set(spec["required"])
    assert spec["properties"]["engine"]["required"] == ["image"]


def test_subresources_and_columns() -> None:
    assert VERSION["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    columns = {c["name"]: c for c in VERSION["additionalPrinterColumns"]}
    always = ["Ready", "Reason", "Replicas", "Warm", "Standby", "Resident", "Age"]
    assert [name for name, c in columns.items() if not c.get("priority")] == always
    assert [name for name, c in columns.items() if c.get("priority")] == [
        "Progress",
        "Model",
        "Pool",
    ]


def test_names_of_the_resource() -> None:
    definition = yaml.safe_load(to_yaml())
    assert definition["metadata"]["name"] == "warmmodels.warmpod.io"
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"]["shortNames"] == ["wm"]
    assert "categories" not in definition["spec"]["names"]
