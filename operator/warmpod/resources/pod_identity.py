"""How a container of ours proves which pod it is in: a token, and its own name.

Only our containers get them; the engine has no token to lose.
"""

from __future__ import annotations

from typing import Any

from warmpod.resources.rendering import mount

_VOLUME = "warmpod-token"
_TOKEN_SECONDS = 3600


def token_volume() -> dict[str, Any]:
    """What the API server would mount by itself, had automounting not been off."""
    return {
        "name": _VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
                        ]
                    }
                },
            ]
        },
    }


def token_mount() -> dict[str, Any]:
    return mount(_VOLUME, "/var/run/secrets/kubernetes.io/serviceaccount", read_only=True)


def environment() -> list[dict[str, Any]]:
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}
        for name, field in (
            ("POD_NAME", "name"),
            ("POD_NAMESPACE", "namespace"),
            ("POD_UID", "uid"),
        )
    ]
