#!/usr/bin/env python3
"""Applies the sample, waits until its model is warm, and asks it for a completion.

Environment: KUBECONFIG, REGISTRY. The operator runs and the images are pushed (`make install`).
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from openai import OpenAI

from devtools import kube, places, steps

SAMPLE = places.ROOT / "manifests" / "samples" / "tiny.yaml"
NAMESPACE, MODEL, PORT = "warmpod-demo", "tiny", 8000
# How long nothing at all may change. Pulling and unpacking the engine's image is one state, and
# takes a slow machine many minutes.
QUIET_S = 1800.0
PROMPT = "Why does the first request take so long?"

WHAT_NEXT = (
    f"Look: kubectl -n {NAMESPACE} logs -l warmpod.io/model={MODEL} --all-containers --prefix",
    "Then run make demo again: it goes on where this one left off.",
)

JsonObject = kube.JsonObject


def main() -> None:
    with steps.step(f"Apply {SAMPLE.relative_to(places.ROOT)}"):
        kube.kubectl("apply", "-f", "-", standard_input=kube.with_registry(SAMPLE.read_text()))
    with steps.step(f"Wait until WarmModel {MODEL} is Ready"):
        wait_until_ready()
    with steps.step("One completion through the Service"), service_url() as url:
        complete(url)
    steps.say("--> How the start went")
    show_timeline()


def wait_until_ready() -> None:
    """Tells each new state on the way; it comes from conditions, which say what goes on. Waits for
    as long as there is progress and nothing needs a person."""
    changed = time.monotonic()
    told: dict[str, str] = {}
    while True:
        model = kube.get("warmmodel", NAMESPACE, MODEL)
        pods = kube.get("pods", NAMESPACE, selector=f"warmpod.io/model={MODEL}")
        states = current_states(model, pods.get("items", []))
        for state in states.keys() - told.keys():
            steps.say(f"    {state}: {states[state]}".removesuffix(": "))
        if states != told:
            changed = time.monotonic()
        told = states
        if is_true("Ready", model):
            return
        reason = why_give_up(model, time.monotonic() - changed)
        if reason is not None:
            raise steps.StepError("\n".join([reason, *what_is_known(states), *WHAT_NEXT]))
        time.sleep(1)


def why_give_up(model: JsonObject, quiet_s: float) -> str | None:
    """`quiet_s`: seconds since anything changed."""
    if is_true("Stalled", model):
        return f"WarmModel {MODEL} will not become Ready without help:"
    if quiet_s > QUIET_S:
        return f"WarmModel {MODEL} is not Ready, and nothing has changed for {quiet_s:.0f} s:"
    return None


def what_is_known(states: dict[str, str]) -> Iterator[str]:
    for state, message in states.items():
        yield f"{state}: {message}"


def is_true(kind: str, model: JsonObject) -> bool:
    """Of the current generation."""
    current = model["metadata"]["generation"]
    return any(
        condition["type"] == kind
        and condition["status"] == "True"
        and condition.get("observedGeneration", current) == current
        for condition in model.get("status", {}).get("conditions", [])
    )


def current_states(model: JsonObject, pods: list[JsonObject]) -> dict[str, str]:
    """States with their messages, of the WarmModel and of warmpod's own conditions on its pods."""
    states = states_of(MODEL, model, ("Ready", "Stalled"))
    for pod in pods:
        name = f"pod {pod['metadata']['name']}"
        states |= states_of(name, pod, ("warmpod.io/Warm", "warmpod.io/Resident"))
    return states


def states_of(name: str, holder: JsonObject, types: tuple[str, ...]) -> dict[str, str]:
    return {
        f"{name}: {condition['type'].removeprefix('warmpod.io/')} is {condition['status']}"
        f" ({condition.get('reason', '')})": condition.get("message", "")
        for condition in holder.get("status", {}).get("conditions", [])
        if condition["type"] in types
    }


@contextmanager
def service_url() -> Iterator[str]:
    """The Service's own address on the local cluster, else a port that kubectl forwards to it."""
    service = kube.get("service", NAMESPACE, MODEL)
    if places.is_local_cluster():
        yield f"http://{service['spec']['clusterIP']}:{PORT}/v1"
        return
    command = [places.program("kubectl"), "port-forward", "--namespace", NAMESPACE]
    command += [f"service/{MODEL}", f":{PORT}"]
    forward = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=places.environment())
    try:
        assert forward.stdout
        found = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
        if not found:
            raise steps.StepError("kubectl port-forward did not start: see above")
        yield f"http://127.0.0.1:{found[1]}/v1"
    finally:
        forward.terminate()
        forward.wait()


def complete(url: str) -> None:
    client = OpenAI(base_url=url, api_key="none", timeout=60)
    started = time.monotonic()
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}], max_tokens=24
    )
    milliseconds = 1000 * (time.monotonic() - started)
    steps.say(f"    question: {PROMPT}")
    steps.say(f"    answer:   {answer.choices[0].message.content!r} (the weights are random)")
    steps.say(f"    {milliseconds:.0f} ms for the first request that a user makes")


def show_timeline() -> None:
    command = [sys.executable, "-m", "warmpod.cli.main", "timeline", MODEL, "-n", NAMESPACE]
    subprocess.run(command, check=True, env=places.environment())


if __name__ == "__main__":
    try:
        main()
    except steps.StepError as error:
        steps.exit_with_message(error)
