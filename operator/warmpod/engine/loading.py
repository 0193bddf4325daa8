"""Whether spec.weights.loader is for us to give to the engine, or the user has said it already."""

from __future__ import annotations

from warmpod.api.v1alpha1 import WarmModelSpec
from warmpod.engine.arguments import read


def ignored_loader(spec: WarmModelSpec) -> str:
    """Why spec.weights.loader has no effect, in a sentence; empty where it has, and for Auto."""
    wanted = spec.weights.loader
    if wanted == "Auto":
        return ""
    if spec.engine.command:
        return (
            f"spec.weights.loader {wanted} has no effect, because nothing is added to "
            "spec.engine.command: put --load-format or --model-loader-extra-config there"
        )
    own = read((), spec.engine.args, spec.engine.env).loading
    if own:
        return (
            f"spec.weights.loader {wanted} has no effect, because {own} in spec.engine.args wins: "
            "take one of the two out"
        )
    return ""
