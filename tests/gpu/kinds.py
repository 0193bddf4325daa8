"""The same path for other kinds of the engine: its first pod, and a boot forked after a kill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu import machine, pods, warm_starts, weights
from gpu.readings import GpuMemory
from gpu.results import REPEATS, Results
from gpu.setting import NAME, WARM, Setting
from gpu.weights import Form
from support.api import Api
from support.clients import Client

JsonObject = dict[str, Any]

ADAPTER = "adapter"


def fp8(api: Api, setting: Setting, results: Results) -> None:
    """Weights of 16 bits, which the engine makes smaller as it reads them."""
    _measure(api, results, fp8_model(setting))


def gptq(api: Api, setting: Setting, results: Results) -> None:
    _measure(api, results, _model(_packed(setting, Form.GPTQ)))


def awq(api: Api, setting: Setting, results: Results) -> None:
    _measure(api, results, _model(_packed(setting, Form.AWQ)))


def lora(api: Api, setting: Setting, results: Results) -> None:
    """What is asked for afterwards is the adapter."""
    weights.write_adapter(weights.SHAPES[weights.CHOSEN], machine.MODELS / ADAPTER)
    _measure(api, results, lora_model(setting), ADAPTER)


def two_gpus(api: Api, setting: Setting, results: Results) -> None:
    """Each has half of every matrix."""
    _measure(api, results, two_gpus_model(setting))


def fp8_model(setting: Setting) -> JsonObject:
    return _model(setting, "--quantization=fp8")


def lora_model(setting: Setting) -> JsonObject:
    place = f"{ADAPTER}=/models/{ADAPTER}"
    body = _model(
        setting, "--enable-lora", f"--max-lora-rank={weights.RANK}", "--lora-modules", place
    )
    source = {"nodePath": {"path": str(machine.MODELS / ADAPTER)}}
    body["spec"]["additionalModels"] = [{"name": ADAPTER} | source]
    return body


def two_gpus_model(setting: Setting) -> JsonObject:
    body = _model(setting, "--tensor-parallel-size=2")
    body["spec"]["engine"]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    return body


def _model(setting: Setting, *arguments: str) -> JsonObject:
    body = setting.warm_model(forked=True)
    body["spec"]["engine"]["args"] += arguments
    return body


def _packed(setting: Setting, form: Form) -> Setting:
    """With the same model in that form, written now."""
    place = machine.MODELS / f"llama-{weights.CHOSEN}-{form.value}"
    weights.write(weights.SHAPES[weights.CHOSEN], place, form)
    return replace(setting, model=place)


def _measure(api: Api, results: Results, body: JsonObject, asked: str = NAME) -> None:
    pods.new_namespace(api, WARM)
    results.note(args=body["spec"]["engine"]["args"])
    with GpuMemory() as memory:
        view = warm_starts.roll_out(api, body)
        pod = pods.only_pod(api, view)
        results.add("starts", warm_starts.told_by(api, pod, memory))
    results.note(features=pods.measure_features(Client(view.service_url()), asked))
    results.note(stored=warm_starts.wait_until_stored(view))
    for _ in results.repeats(REPEATS):
        results.add("boots", warm_starts.next_boot(api, pod))
    pods.engine_log(pod)
    pods.remove_namespaces(api, WARM)
