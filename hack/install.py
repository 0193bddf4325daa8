#!/usr/bin/env python3
"""Installs the operator in the cluster in use and waits until it runs.

Environment: KUBECONFIG, REGISTRY. `hack/images.py operator` has pushed the image.
"""

from pathlib import Path

import yaml

from devtools import images, kube, places, steps

NAMESPACE = "warmpod-system"
OPERATOR = "warmpod-operator"
IMAGE_IN_TREE = f"{places.LOCAL_REGISTRY}/operator"
ROLLOUT_TIMEOUT = "180s"


def main() -> None:
    tag = images.built("operator").tags[0]
    overlay = places.CACHE / "install"
    with steps.step(f"Install {places.registry()}/operator:{tag}"):
        write_overlay(overlay, tag)
        kube.apply_kustomization(overlay)
        wait = ("--namespace", NAMESPACE, f"--timeout={ROLLOUT_TIMEOUT}")
        kube.kubectl("rollout", "status", f"deployment/{OPERATOR}", *wait)


def write_overlay(directory: Path, tag: str) -> None:
    """The tree's install with this tree's image, also for the pods that the operator makes."""
    directory.mkdir(parents=True, exist_ok=True)
    document = overlay_document(base_of_overlay(directory), tag)
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def base_of_overlay(directory: Path) -> str:
    base = "hack/manifests/local" if places.is_local_cluster() else "manifests/install"
    return kube.relative(places.ROOT / base, directory)


def overlay_document(base: str, tag: str) -> kube.JsonObject:
    container = "spec.template.spec.containers.[name=operator]"
    deployment = {"kind": "Deployment", "name": OPERATOR}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [base],
        "images": [
            {"name": IMAGE_IN_TREE, "newName": f"{places.registry()}/operator", "newTag": tag}
        ],
        "replacements": [
            {
                "source": {**deployment, "fieldPath": f"{container}.image"},
                "targets": [
                    {
                        "select": deployment,
                        "fieldPaths": [f"{container}.env.[name=WARMPOD_OPERATOR_IMAGE].value"],
                    }
                ],
            }
        ],
    }


if __name__ == "__main__":
    try:
        main()
    except steps.StepError as error:
        steps.exit_with_message(error)
