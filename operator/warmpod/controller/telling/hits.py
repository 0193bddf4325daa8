"""How often a start-up found prepared what it needed: compiled code, and images on its node."""

from __future__ import annotations

from collections.abc import Iterable

from warmpod.controller.apiserver.kinds import POD
from warmpod.controller.objects.views import Key, ModelView, PodView, owner_key
from warmpod.resources.names import AGENT_CONTAINER, COMPONENT_LABEL, PREFETCH_LABEL

#: A model, an identity of prefetch pods and a node.
Place = tuple[Key | None, str, str]


def compile_hits(models: Iterable[ModelView]) -> list[bool]:
    """Of the last start-ups of all models whose engine said it."""
    return [
        startup["compile"] == "hit"
        for model in models
        for startup in (model.body.get("status") or {}).get("lastStartups") or []
        if startup.get("compile") in ("hit", "miss")
    ]


def image_hits(pods: Iterable[PodView]) -> list[bool]:
    """Whether the agent, which mounts every image of the engine pod, ran on the node before the
    engine pod came to it. Pods of which that cannot be told any more are left out."""
    engines: list[PodView] = []
    agents: dict[Place, PodView] = {}
    for pod in pods:
        if pod.meta.labels.get(COMPONENT_LABEL) == "engine":
            engines.append(pod)
        else:
            agents[_place(pod)] = pod
    found = (_found_images(pod, agents.get(_place(pod))) for pod in engines)
    return [hit for hit in found if hit is not None]


def _found_images(pod: PodView, prefetch: PodView | None) -> bool | None:
    scheduled, started = pod.startup.scheduled, pod.startup.engine
    agent = prefetch.container(AGENT_CONTAINER) if prefetch else None
    if scheduled is None or started is None or prefetch is None or agent is None:
        return None
    if agent.running_since is not None and agent.running_since.timestamp() <= scheduled:
        return True
    created = prefetch.startup.created
    # An agent of later than the engine has replaced one of which nothing is known, and one that was
    # restarted may have held the images before.
    is_known = created is not None and created <= started and not agent.restarts
    return False if is_known else None


def _place(pod: PodView) -> Place:
    return owner_key(POD, pod.meta), pod.meta.labels.get(PREFETCH_LABEL, ""), pod.node
