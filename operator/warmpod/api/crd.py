"""The CustomResourceDefinition, made from the models.

`python -m warmpod.api.crd > crds/warmpod.io_warmmodels.yaml` writes the file that is installed.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from warmpod.api.base import rule
from warmpod.api.profiles import STATED_ONLY
from warmpod.api.status import WarmModelStatus
from warmpod.api.v1alpha1 import MAX_NAME_LENGTH, SERVICE_NAME_PATTERN, WarmModelSpec
from warmpod.protocol import GROUP, KIND, PLURAL, VERSION

_KEPT = (
    "type",
    "description",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)

_RULES = "x-kubernetes-validations"

_SERVED = "(has(self.spec.model.servedName) ? self.spec.model.servedName : self.metadata.name)"
_ROOT_RULES = [
    rule(
        f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && "
        f"self.metadata.name.matches('{SERVICE_NAME_PATTERN}')",
        "metadata.name becomes the name of a Service: use at most "
        f"{MAX_NAME_LENGTH} lower case letters, digits and dashes, starting with a letter and "
        "not ending with a dash",
    ),
    rule(
        "!has(self.spec.engine.volumeMounts) || self.spec.engine.volumeMounts.all(m, "
        f"m.mountPath != '/models/' + {_SERVED})",
        "spec.engine.volumeMounts: the model itself is mounted at /models/<servedName>: choose "
        "another mountPath",
    ),
    rule(
        "!has(self.spec.engine.volumeMounts) || !has(self.spec.additionalModels) || "
        "self.spec.engine.volumeMounts.all(m, self.spec.additionalModels.all(a, "
        "m.mountPath != '/models/' + a.name))",
        "spec.engine.volumeMounts: an additional model is mounted at /models/<name>: choose "
        "another mountPath",
    ),
    # A directory of the first part of a served name with slashes would hide the model below it.
    rule(
        "!has(self.spec.additionalModels) || self.spec.additionalModels.all(a, "
        f"a.name != self.metadata.name && !({_SERVED} + '/').startsWith(a.name + '/'))",
        "spec.additionalModels: a name is that of the model itself (metadata.name or servedName): "
        "choose another name",
    ),
]


def crd() -> dict[str, Any]:
    """The whole CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["wm"],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def to_yaml() -> str:
    """The CRD as it stands in the file."""
    return "---\n" + yaml.dump(crd(), Dumper=_WithoutAliases, sort_keys=False, width=100)


class _WithoutAliases(yaml.SafeDumper):
    """What stands twice is written twice: not every reader of a CRD knows YAML's references."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root_schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            _column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
            _column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            _column("Replicas", "integer", ".spec.replicas"),
            _column("Warm", "integer", ".status.warmReplicas"),
            _column("Standby", "integer", ".status.standbyReplicas"),
            _column("Resident", "integer", ".status.nodes.resident"),
            _column("Progress", "string", ".status.nodes.progress", priority=1),
            _column("Model", "string", ".status.model.source", priority=1),
            _column("Pool", "string", ".status.standby.summary", priority=1),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
    }


def _column(name: str, type_: str, path: str, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": type_, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})


def _root_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A model that is kept ready to serve: prefetched, resident in memory, and "
        "behind engines that take traffic only when they are warm.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this schema."},
            "kind": {"type": "string", "description": "WarmModel."},
            "metadata": {"type": "object"},
            "spec": _spec_schema() | {"description": "What is wanted."},
            "status": _model_schema(WarmModelStatus) | {"description": "What was observed."},
        },
        _RULES: _ROOT_RULES,
    }


def _spec_schema() -> dict[str, Any]:
    """Without the defaults that a profile may have others for."""
    schema = _model_schema(WarmModelSpec)
    for part, name in STATED_ONLY:
        node = schema["properties"][part]
        del node["properties"][name]["default"], node["default"][name]
    return schema


def _model_schema(model: type[WarmModelSpec] | type[WarmModelStatus]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}))


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of pydantic in the subset that a CRD may use: no references, no unions."""
    node = _flattened(node, definitions)
    result = {key: node[key] for key in _KEPT if key in node}
    result |= {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    if node.get("x-kubernetes-int-or-string"):
        result["anyOf"] = node["anyOf"]
    if "items" in node:
        result["items"] = _structural(node["items"], definitions)
    if "properties" in node:
        result["properties"] = {
            name: _structural(value, definitions) for name, value in node["properties"].items()
        }
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    return result | _default(node)


def _flattened(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference or an optional field; what stands beside it wins, but for rules: all of
    them hold."""
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        return _joined(_flattened(target, definitions), _without(node, "$ref"))
    if "anyOf" in node and "x-kubernetes-int-or-string" not in node:
        kinds = [kind for kind in node["anyOf"] if kind.get("type") != "null"]
        if len(kinds) != 1:
            raise ValueError(f"a union has no structural schema: {node}")
        return _joined(_flattened(kinds[0], definitions), _without(node, "anyOf"))
    return node


def _without(node: dict[str, Any], left_out: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != left_out}


def _joined(inner: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    found = [*inner.get(_RULES, ()), *outer.get(_RULES, ())]
    return inner | outer | ({_RULES: found} if found else {})


def _default(node: dict[str, Any]) -> dict[str, Any]:
    """Defaults without nulls, empty lists and empty texts: absent means the same, with no diff.

    Objects get their fields' defaults in full, because the API server judges a default by the
    CEL rules before it fills in the defaults inside.
    """
    default = node.get("default")
    if isinstance(default, dict):
        default = {key: value for key, value in default.items() if value not in (None, [], "")}
    return {} if default in (None, [], "") else {"default": default}


if __name__ == "__main__":
    sys.stdout.write(to_yaml())
