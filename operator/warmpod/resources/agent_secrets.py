"""The Secrets that an agent reads: credentials of sources, and those that images are pulled with.

Only the agent has them. All are optional, so that a pod starts without them and sees them when they
appear.
"""

from __future__ import annotations

from typing import Any

from warmpod.protocol import PULL_SECRETS_MOUNT
from warmpod.resources.rendering import Rendering, mount


def volumes(rendering: Rendering) -> list[dict[str, Any]]:
    return [
        {"name": volume, "secret": {"secretName": secret, "optional": True}}
        for volume, secret, _ in _secrets(rendering)
    ]


def mounts(rendering: Rendering) -> list[dict[str, Any]]:
    return [mount(volume, path, read_only=True) for volume, _, path in _secrets(rendering)]


def pull_folders(rendering: Rendering) -> list[str]:
    """Where the pull secrets lie. They are needed to read signatures from the images' registry."""
    if not any(item.source.verify for item in rendering.sets):
        return []
    secrets = rendering.model.spec.pod.image_pull_secrets
    return [f"{PULL_SECRETS_MOUNT}/{number}" for number in range(len(secrets))]


def _secrets(rendering: Rendering) -> list[tuple[str, str, str]]:
    """Volume, Secret, and path of each."""
    credentials = [
        (f"warmpod-credentials{item.suffix}", item.secret_name, item.credentials)
        for item in rendering.sets
        if item.secret_name and item.credentials
    ]
    pull = [
        (f"warmpod-pull-{number}", secret.name, folder)
        for number, (secret, folder) in enumerate(
            zip(rendering.model.spec.pod.image_pull_secrets, pull_folders(rendering), strict=False)
        )
    ]
    return credentials + pull
