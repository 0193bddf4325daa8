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
# The image of the engine has to be unpacked, and the engine to start, on two slow cores.
READY_TIMEOUT_S = 600.0
PROMPT = "Why does the first request take so long?"

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
    """Tells each new state on the way; it comes from conditions, which say what goes on."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    told: list[str] = []
    while True:
        model = kube.get("warmmodel", NAMESPACE, MODEL)
        pods = kube.get("pods", NAMESPACE, selector=f"warmpod.io/model={MODEL}")
        lines = state_lines(model, pods.get("items", []))
        for line in lines:
            if line not in told:
                steps.say(f"    {line}")
        told = lines
        if is_ready(model):
            return
        if time.monotonic() > deadline:
            raise steps.StepError(
                f"WarmModel {MODEL} is not Ready after {READY_TIMEOUT_S:.0f} s:\n"
                + "\n".join(lines)
            )
        time.sleep(1)


def is_ready(model: JsonObject) -> bool:
    current = model["metadata"]["generation"]
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and condition.get("observedGeneration", current) == current
        for condition in model.get("status", {}).get("conditions", [])
    )


def state_lines(model: JsonObject, pods: list[JsonObject]) -> list[str]:
    """One line a condition, of the WarmModel and of warmpod's own on its pods."""
    lines = [
        f"{MODEL}: {condition_text(condition)}"
        for condition in model.get("status", {}).get("conditions", [])
        if condition["type"] in ("Ready", "Stalled")
    ]
    for pod in pods:
        lines += [
            f"pod {pod['metadata']['name']}: {condition_text(condition)}"
            for condition in pod.get("status", {}).get("conditions", [])
            if condition["type"] in ("warmpod.io/Warm", "warmpod.io/Resident")
        ]
    return lines


def condition_text(condition: JsonObject) -> str:
    """Counted seconds in messages would make a new line each time: only the first words count."""
    message = re.split(r"[;\n]", condition.get("message", ""))[0]
    kind = condition["type"].removeprefix("warmpod.io/")
    return f"{kind} is {condition['status']} ({condition.get('reason', '')}) {message}".rstrip()


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
