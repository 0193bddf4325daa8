"""How many starts find compiled code, by the engine's own line.

The engine is the simulated one, as a real one compiles for minutes: what is measured is what finds,
verifies, copies and keeps entries, under what happens to pods of a node.
"""

from __future__ import annotations

from collections import Counter

from support.api import Api, JsonObject
from support.models import ModelView, knobs, warm_model, with_engine
from support.startups import Startups
from support.waiting import wait_until

PODS = 4
ROUNDS = 50
#: Every so many rounds, with the pods goes the agent that keeps the store, or the arguments change.
AGENT_EVERY, ARGUMENTS_EVERY = 5, 7
ARGUMENTS = (["--max-model-len=1024"], ["--max-model-len=2048"])
LIMIT_S = 300


def measure(api: Api, namespace: str) -> JsonObject:
    model = warm_model("bench", namespace, replicas=PODS, compileCache={"store": "Node"})
    series = _Series(api, with_engine(model, env=knobs(first_seconds=0.05, load_seconds=1)))
    # Each pair of settings compiles once: these starts are to miss.
    prepared = [series.under(arguments) for arguments in reversed(ARGUMENTS)]
    found: Counter[str] = Counter()
    misses: list[str] = []
    for number in range(1, ROUNDS + 1):
        if number % ARGUMENTS_EVERY == 0:
            started = series.under(ARGUMENTS[number // ARGUMENTS_EVERY % 2])
        else:
            started = series.again(with_agent=number % AGENT_EVERY == 0)
        found.update(startup["compile"] for startup in started)
        misses += [
            startup.get("compileWhy", "") for startup in started if startup["compile"] != "hit"
        ]
    return {
        "starts": found.total(),
        "hits": found["hit"],
        "hit_rate": round(found["hit"] / found.total(), 4),
        "misses": misses,
        "before": dict(Counter(each["compile"] for started in prepared for each in started)),
    }


class _Series:
    """One WarmModel whose pods start again and again."""

    def __init__(self, api: Api, model: JsonObject) -> None:
        self._api = api
        self._model = model
        self._view = ModelView(api, model["metadata"]["name"], model["metadata"]["namespace"])
        self._startups = Startups(self._view)

    def under(self, arguments: list[str]) -> list[JsonObject]:
        """All pods anew, by a rollout."""
        self._model = with_engine(self._model, args=arguments)
        self._api.apply(self._model)
        return self._told()

    def again(self, with_agent: bool) -> list[JsonObject]:
        """All pods at once, as after the loss of a node's power."""
        pods = self._view.engine_pods() + (self._view.prefetch_pods() if with_agent else [])
        for pod in pods:
            self._api.delete("Pod", pod["metadata"]["name"], self._view.namespace)
        return self._told()

    def _told(self) -> list[JsonObject]:
        started: list[JsonObject] = []
        while len(started) < PODS:
            started += self._startups.next(timeout_s=LIMIT_S)
        self._view.wait_ready(timeout_s=LIMIT_S)
        wait_until(
            "no pod is on its way out",
            lambda: len(self._view.engine_pods()) == PODS,
            timeout_s=LIMIT_S,
        )
        return started
