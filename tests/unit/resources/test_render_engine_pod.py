"""Rules of the engine pod, one by one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from unit.resources.samples import (
    ENGINE_DIGEST,
    MODEL_DIGEST,
    SETTINGS,
    container,
    engine_container,
    engine_spec,
    environment,
    mounts,
    rendered,
    volumes,
    warm_model,
)
from warmpod.engine import EngineTraits
from warmpod.resources import warmup_container
from warmpod.resources.revision import Digests
from warmpod.sidecar.config import read_config

LAUNCHER = ["python3", "/opt/warmpod/app/launch.py"]


def sidecar_config(**spec: Any) -> dict[str, Any]:
    warmup = container(engine_spec(warm_model(**spec)), "warmup")
    config: dict[str, Any] = json.loads(environment(warmup)["WARMPOD_SIDECAR_CONFIG"])
    return config


def launcher_options(**spec: Any) -> list[str]:
    command = engine_container(warm_model(**spec))["command"]
    assert command[:3] == [*LAUNCHER, "run"]
    assert command[-1] == "--"
    return list(command[3:-1])


# --- the loader of the weights ---------------------------------------------------------------


def loader_options(**spec: Any) -> list[str]:
    return [word for word in launcher_options(**spec) if "loader" in word.partition("=")[0]]


MULTITHREAD = {"loader": "Multithread"}
COMPARED = {"compare": {"args": ["--enforce-eager"]}}


def test_the_launcher_is_told_which_loader_is_wanted() -> None:
    assert loader_options() == []
    assert loader_options(weights={"loader": "Auto"}) == []
    assert loader_options(weights=MULTITHREAD) == ["--loader=Multithread"]


def test_forks_are_asked_for_whatever_the_command_is() -> None:
    """The launcher sees whether it can be forked, and says why not."""
    forked = {"start": "Forked"}
    assert "--fork" not in launcher_options(engine={"start": "Plain"})
    assert "--fork" in launcher_options(engine=forked)
    own = forked | {"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]}
    assert "--fork" in launcher_options(engine=own)


def test_only_an_engine_that_may_sleep_is_started_for_it() -> None:
    sleeping = {"state": "Sleeping"}
    assert "--sleep-mode" not in launcher_options(standby={"replicas": 2})
    assert "--sleep-mode" in launcher_options(standby=sleeping)
    own = {"command": ["vllm", "serve", "/models/llama"]}
    assert "--sleep-mode" not in launcher_options(standby=sleeping, engine=own)


def test_the_users_own_arguments_win_over_the_loader() -> None:
    for word in ("--load-format=dummy", "--model-loader-extra-config={}"):
        engine = {"args": [word]}
        assert loader_options(weights=MULTITHREAD, engine=engine) == []
    command = {"command": ["vllm", "serve", "/models/llama"]}
    assert loader_options(weights=MULTITHREAD, engine=command) == []


def test_the_boot_to_compare_with_loads_the_same_way() -> None:
    assert loader_options(weights=MULTITHREAD, warmup=COMPARED) == [
        "--loader=Multithread",
        "--reference-loader=Multithread",
    ]
    own = {"compare": {"args": ["--load-format=auto"]}}
    assert loader_options(weights=MULTITHREAD, warmup=own) == ["--loader=Multithread"]


# --- the command line -----------------------------------------------------------------------


def test_the_launcher_runs_vllm_with_what_only_we_know() -> None:
    engine = engine_container(warm_model(engine={"args": ["--max-model-len=8192"]}))
    assert engine["args"] == [
        "vllm",
        "serve",
        "/models/llama",
        "--served-model-name=llama",
        "--max-model-len=8192",
    ]
    cache = {"store": "None"}
    assert launcher_options(compileCache=cache) == [
        "--run-dir=/run/warmpod",
        "--port=8000",
        "--drain-seconds=60",
        "--max-failed-boots=3",
    ]


def test_arguments_go_through_byte_for_byte() -> None:
    args = ["--b", "", " x ", '{"mode":3}', "-tp=2", "--b", "$(X)", "--served-model-name", "a", "b"]
    assert engine_container(warm_model(engine={"args": args}))["args"] == [
        "vllm",
        "serve",
        "/models/llama",
        *args,
    ]


def reference_options(args: list[str], env: list[Any] | None = None, **spec: Any) -> list[str]:
    compare = {"args": args, "env": env or []}
    options = launcher_options(warmup={"compare": compare}, **spec)
    return [option for option in options if option.startswith("--reference-")]


def test_the_boot_to_compare_with_has_the_same_name_and_port() -> None:
    argv, env = reference_options(
        ["-cc.pass_config.fuse_norm_quant=false"],
        [{"name": "VLLM_USE_X", "value": "0"}],
        engine={"args": ["--served-model-name", "a", "b", "--port=8002", "--enforce-eager"]},
    )
    assert json.loads(argv.removeprefix("--reference-argv=")) == [
        "vllm",
        "serve",
        "/models/llama",
        "--served-model-name",
        "a",
        "b",
        "--port=8002",
        "-cc.pass_config.fuse_norm_quant=false",
    ]
    assert json.loads(env.removeprefix("--reference-env=")) == {"VLLM_USE_X": "0"}


def test_the_boot_to_compare_with_may_say_its_name_and_port_itself() -> None:
    argv, _ = reference_options(["--served-model-name=z", "--port=9"])
    words = json.loads(argv.removeprefix("--reference-argv="))
    assert words == ["vllm", "serve", "/models/llama", "--served-model-name=z", "--port=9"]


def test_an_own_command_runs_the_boot_to_compare_with() -> None:
    argv, _ = reference_options(["serve 2"], engine={"command": ["bash", "-c"], "args": ["serve"]})
    assert json.loads(argv.removeprefix("--reference-argv=")) == ["bash", "-c", "serve 2"]


def test_the_kubelet_expands_nothing_within_json() -> None:
    options = reference_options(["--api-key=$(KEY)"], [{"name": "A", "value": "$(B) $"}])
    assert "$" not in "".join(options)
    assert json.loads(options[0].removeprefix("--reference-argv="))[-1] == "--api-key=$(KEY)"
    assert json.loads(options[1].removeprefix("--reference-env=")) == {"A": "$(B) $"}


def test_nothing_is_compared_unless_asked_for() -> None:
    assert not [option for option in launcher_options() if "reference" in option]


def test_an_own_command_gets_nothing_added() -> None:
    engine = {"command": ["bash", "-c"], "args": ["vllm serve x --port 8002"], "port": 8002}
    assert engine_container(warm_model(engine=engine))["args"] == [
        "bash",
        "-c",
        "vllm serve x --port 8002",
    ]


def test_the_port_of_the_arguments_is_the_port_of_everything() -> None:
    model = warm_model(engine={"args": ["--port", "8443", "--ssl-certfile=/c", "--ssl-keyfile=/k"]})
    engine = engine_container(model)
    assert engine["ports"] == [{"name": "http", "containerPort": 8443}]
    assert "--port=8443" in engine["command"]
    assert "--scheme=https" in engine["command"]
    config = sidecar_config(engine={"args": ["--port", "8443", "--ssl-certfile=/c"]})
    assert config["base_url"] == "https://127.0.0.1:8443"
    assert config["tls_verify"] is False


def test_a_stated_port_is_passed_on_where_nothing_else_says_it() -> None:
    def args(**engine: Any) -> list[str]:
        return list(engine_container(warm_model(engine=engine))["args"])

    assert "--port=9000" in args(port=9000)
    assert "--port=9000" not in args(port=9000, args=["--config=/vllm.yaml"])
    assert args(port=9000, args=["--port=9000"]).count("--port=9000") == 1
    assert "--port=9000" in launcher_options(engine={"port": 9000, "args": ["--config=/c"]})


def test_the_drain_fits_into_the_grace_period() -> None:
    assert "--drain-seconds=570" in launcher_options(pod={"terminationGracePeriodSeconds": 600})
    assert "--drain-seconds=0" in launcher_options(pod={"terminationGracePeriodSeconds": 30})


def test_the_gate_closes_before_the_engine_is_told_to_stop() -> None:
    stop = engine_container(warm_model())["lifecycle"]["preStop"]["exec"]["command"]
    assert stop == [*LAUNCHER, "pre-stop", "--run-dir=/run/warmpod"]


# --- the environment and the folders --------------------------------------------------------


def test_default_environment() -> None:
    assert environment(engine_container(warm_model())) == {
        "HOME": "/home/warmpod",
        "USER": "warmpod",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def test_the_users_variables_win_and_come_last() -> None:
    env = [
        {"name": "HF_HUB_OFFLINE", "value": "0"},
        {"name": "CACHE", "value": "$(HOME)/x"},
        {"name": "VLLM_CACHE_ROOT", "value": "/mine"},
    ]
    engine = engine_container(warm_model(engine={"env": env}))
    assert engine["env"][-3:] == env
    assert environment(engine)["HF_HUB_OFFLINE"] == "0"


def test_no_variable_of_ours_differs_between_pods() -> None:
    assert all("valueFrom" not in item for item in engine_container(warm_model())["env"])


def test_writable_folders_for_any_user_id_on_a_read_only_root() -> None:
    spec = engine_spec(warm_model())
    found = mounts(container(spec, "engine"))
    for path in ("/home/warmpod", "/tmp", "/dev/shm", "/var/cache/warmpod", "/run/warmpod"):
        assert "readOnly" not in found[path]
        assert "emptyDir" in volumes(spec)[found[path]["name"]]
    assert volumes(spec)["warmpod-shm"]["emptyDir"] == {"medium": "Memory"}


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/", "/tmp", "/home/warmpod"])
def test_a_folder_that_the_user_mounts_is_left_alone(path: str) -> None:
    mount = {"name": "dshm", "mountPath": path, "readOnly": False}
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}
    spec = engine_spec(warm_model(engine={"volumeMounts": [mount]}, pod={"volumes": [volume]}))
    paths = [item.rstrip("/") for item in mounts(container(spec, "engine"))]
    assert paths.count(path.rstrip("/")) == 1
    assert volumes(spec)["dshm"] == volume
    mounted = {item["name"] for item in container(spec, "engine")["volumeMounts"]}
    assert set(volumes(spec)) - mounted == {"warmpod-token"}


@pytest.mark.parametrize(
    "args", [["--tensor-parallel-size=2"], ["-tp", "2"], ["-tp=2"], ["--tensor_parallel_size", "2"]]
)
def test_shared_memory_is_there_once_however_parallelism_is_spelt(args: list[str]) -> None:
    assert "/dev/shm" in mounts(engine_container(warm_model(engine={"args": args})))


# --- the weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("medium", ["Image", "NodeMemory", "PodMemory"])
def test_the_model_is_always_at_the_same_path_and_read_only(medium: str) -> None:
    model = warm_model(
        model={"servedName": "org/llama"}, weights={"medium": medium, "size": "17Gi"}
    )
    spec = engine_spec(model)
    assert mounts(container(spec, "engine"))["/models/org/llama"]["readOnly"] is True
    assert "/models/org/llama" in container(spec, "engine")["args"]


def test_image_medium() -> None:
    reference = f"registry.example.com:5000/models/llama@{MODEL_DIGEST}"
    assert volumes(engine_spec(warm_model()))["warmpod-weights"] == {
        "name": "warmpod-weights",
        "image": {"reference": reference, "pullPolicy": "IfNotPresent"},
    }


def test_node_memory_waits_for_the_receipt_of_the_nodes_copy() -> None:
    memory = {"weights": {"medium": "NodeMemory", "size": "17Gi"}}
    spec = engine_spec(warm_model(**memory))
    assert volumes(spec)["warmpod-weights"]["hostPath"] == {
        "path": f"/dev/shm/warmpod/{MODEL_DIGEST[7:39]}",
        "type": "DirectoryOrCreate",
    }
    assert "--wait-for=/models/llama/.warmpod-receipt.json" in launcher_options(**memory)


def test_node_memory_without_a_digest_goes_by_the_reference() -> None:
    model = warm_model(weights={"medium": "NodeMemory", "size": "17Gi"})
    spec = engine_spec(model, digests=Digests(None, None))
    path = volumes(spec)["warmpod-weights"]["hostPath"]["path"]
    assert path.startswith("/dev/shm/warmpod/ref-")


def test_pod_memory_is_filled_by_an_init_container_that_pays_for_it() -> None:
    spec = engine_spec(warm_model(weights={"medium": "PodMemory", "size": "17Gi"}))
    fill = container(spec, "weights")
    assert fill["command"] == ["warmpod-agent", "fill"]
    memory = f"{17 * 1024 + 128}Mi"
    assert fill["resources"]["limits"] == {"memory": memory}
    assert fill["resources"]["requests"]["memory"] == memory
    assert volumes(spec)["warmpod-weights"]["emptyDir"] == {
        "medium": "Memory",
        "sizeLimit": f"{17 * 1024 + 32}Mi",
    }
    assert mounts(fill)["/weights"]["name"] == "warmpod-weights"
    assert mounts(fill)["/images/model"]["readOnly"] is True
    config = json.loads(environment(fill)["WARMPOD_AGENT_CONFIG"])
    assert config["medium"] == "PodMemory"
    assert config["sets"][0]["target"] == "/weights/llama"
    engine = mounts(container(spec, "engine"))["/models/llama"]
    assert (engine["name"], engine["subPath"]) == ("warmpod-weights", "llama")
    assert [item["name"] for item in spec["initContainers"]] == ["warmup", "weights"]
    assert launcher_options(weights={"medium": "PodMemory", "size": "17Gi"}) == launcher_options()


def test_a_size_given_as_a_number_is_a_quantity_in_the_pod() -> None:
    spec = engine_spec(warm_model(weights={"medium": "PodMemory", "size": 1024**3}))
    assert volumes(spec)["warmpod-weights"]["emptyDir"]["sizeLimit"] == "1056Mi"
    assert container(spec, "weights")["resources"]["limits"] == {"memory": "1152Mi"}


# --- images ---------------------------------------------------------------------------------


def test_known_digests_are_used_and_nothing_is_pulled_always() -> None:
    made = rendered(warm_model())
    text = json.dumps([made.engine_template, made.prefetch_template])
    assert text.count(f"vllm/vllm-openai@{ENGINE_DIGEST}") == 2
    assert "v0.32.0" not in text
    assert "Always" not in text.replace('"restartPolicy": "Always"', "")
    for item in made.engine_template["spec"]["containers"]:
        assert item["imagePullPolicy"] == "IfNotPresent"


def test_unknown_digests_leave_the_image_as_written() -> None:
    engine = engine_container(warm_model(), digests=Digests(None, None))
    assert engine["image"] == "vllm/vllm-openai:v0.32.0"


# --- the sidecar ----------------------------------------------------------------------------


def test_the_sidecar_is_native_and_has_its_own_lock() -> None:
    warmup = container(engine_spec(warm_model()), "warmup")
    assert warmup["restartPolicy"] == "Always"
    assert "startupProbe" not in warmup
    assert warmup["readinessProbe"] == {
        "httpGet": {"path": "/readyz", "port": "warmup"},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    assert warmup["ports"] == [{"name": "warmup", "containerPort": 9180}]


LISTS = ("promptTokens", "concurrency", "skip", "prompts", "promptsFrom", "prefixes", "golden")


def test_sidecar_config() -> None:
    assert sidecar_config(warmup={"maxRounds": 7}) == {
        "model": "llama",
        "revision": rendered(warm_model(warmup={"maxRounds": 7})).hash,
        "base_url": "http://127.0.0.1:8000",
        "served_name": "llama",
        "run_dir": "/run/warmpod",
        "port": 9180,
        "warmup": {
            "stallSeconds": 300,
            "tolerancePercent": 25,
            "maxRounds": 7,
            "roundSeconds": 60,
            "canaryPeriodSeconds": 30,
            "evidenceSeconds": 3600,
            "onFailure": "Block",
            "maxRestarts": 3,
            **{name: [] for name in LISTS},
        },
        "engine": asdict(EngineTraits()) | {"lora_modules": []},
        "caller": "",
        "api_key_env": None,
        "tls_verify": False,
    }


def test_the_sidecar_knows_who_may_give_orders() -> None:
    settings = replace(SETTINGS, operator_user="system:serviceaccount:warmpod-system:operator")
    spec = engine_spec(warm_model(), settings=settings)
    variables = environment(container(spec, "warmup"))
    assert read_config(variables).caller == "system:serviceaccount:warmpod-system:operator"


def test_the_sidecar_can_read_its_config() -> None:
    """With all that the kubelet does to a variable in between: $(NAME) and $$."""
    text = "$(HOME) costs $$5"
    prompts = [{"name": "a", "body": {"prompt": text, "stop": None}}]
    args = ["--max-num-seqs=8", "--lora-modules", "sql=/l", "--scheduling-policy=priority"]
    spec = engine_spec(warm_model(warmup={"prompts": prompts}, engine={"args": args}))
    variables = environment(container(spec, "warmup"))
    assert "$" not in variables["WARMPOD_SIDECAR_CONFIG"]
    config = read_config(variables)
    assert config.warmup.prompts[0].body == {"prompt": text, "stop": None}
    assert config.engine == EngineTraits(
        max_num_seqs=8, lora_modules=("sql",), priority_scheduling=True
    )


def test_a_warmup_that_no_container_could_be_started_with_is_refused() -> None:
    small = [{"name": f"p{i}", "text": "x" * 8000} for i in range(11)]
    assert warmup_container.refusal(warm_model(warmup={"prompts": small})) is None
    large = [{"name": f"p{i}", "text": "x" * 8000} for i in range(13)]
    message = warmup_container.refusal(warm_model(warmup={"prompts": large}))
    assert message is not None
    assert message.startswith("spec.warmup: is 1")
    assert "spec.warmup.promptsFrom" in message


def test_config_maps_with_prompts_are_mounted_and_may_be_missing() -> None:
    sources = [{"configMap": "a.b"}, {"configMap": "c"}]
    spec = engine_spec(warm_model(warmup={"promptsFrom": sources}))
    found = mounts(container(spec, "warmup"))
    for name, volume in (("a.b", "warmpod-prompts-0"), ("c", "warmpod-prompts-1")):
        mount = {"name": volume, "mountPath": f"/etc/warmpod/prompts/{name}", "readOnly": True}
        assert found[f"/etc/warmpod/prompts/{name}"] == mount
        assert volumes(spec)[volume]["configMap"] == {"name": name, "optional": True}
    assert "warmpod-prompts-0" not in volumes(engine_spec(warm_model()))


def test_the_sidecar_asks_by_the_first_name_that_the_engine_serves() -> None:
    config = sidecar_config(engine={"args": ["--served-model-name", "a", "b"]})
    assert config["served_name"] == "a"


def sidecar_environment(**engine: Any) -> dict[str, Any]:
    return environment(container(engine_spec(warm_model(engine=engine)), "warmup"))


def test_the_sidecar_gets_the_key_from_where_the_engine_has_it() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "VLLM_API_KEY", "valueFrom": source}]
    assert sidecar_environment(env=env)["WARMPOD_ENGINE_API_KEY"] == source
    assert "VLLM_API_KEY" not in sidecar_environment(env=env)
    assert sidecar_environment(args=["--api-key=k"])["WARMPOD_ENGINE_API_KEY"] == "k"
    assert sidecar_config(engine={"env": env})["api_key_env"] == "WARMPOD_ENGINE_API_KEY"
    assert "WARMPOD_ENGINE_API_KEY" not in sidecar_environment()


def test_a_key_that_refers_to_variables_takes_them_along_in_order() -> None:
    env = [
        {"name": "OTHER", "value": "o"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "KEY", "value": "x-$(SECRET)"},
    ]
    found = sidecar_environment(env=[*env, {"name": "VLLM_API_KEY", "value": "$(KEY)"}])
    names = list(found)
    assert names.index("SECRET") < names.index("KEY") < names.index("WARMPOD_ENGINE_API_KEY")
    assert found["WARMPOD_ENGINE_API_KEY"] == "$(KEY)"
    assert "OTHER" not in found
    argument = sidecar_environment(env=env, args=["--api-key", "$(KEY)"])
    assert argument["WARMPOD_ENGINE_API_KEY"] == "x-$(SECRET)"
    assert "SECRET" in argument


def test_an_empty_key_is_no_key() -> None:
    assert (
        sidecar_config(engine={"env": [{"name": "VLLM_API_KEY", "value": ""}]})["api_key_env"]
        is None
    )


# --- the pod --------------------------------------------------------------------------------


def test_only_the_sidecar_has_a_token_and_knows_its_pod() -> None:
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    spec = engine_spec(warm_model(weights={"medium": "PodMemory", "size": "1Gi"}))
    holders = [
        item["name"]
        for item in [*spec["initContainers"], *spec["containers"]]
        if token in mounts(item)
    ]
    assert holders == ["warmup"]
    assert spec["automountServiceAccountToken"] is False
    assert {"POD_NAME", "POD_NAMESPACE", "POD_UID"} <= environment(container(spec, "warmup")).keys()
    assert "POD_UID" not in environment(container(spec, "engine"))


def test_pod_fields() -> None:
    spec = engine_spec(warm_model())
    assert spec["enableServiceLinks"] is False
    assert spec["readinessGates"] == [{"conditionType": "warmpod.io/Warm"}]
    assert spec["terminationGracePeriodSeconds"] == 90
    assert spec["serviceAccountName"] == "llama-warmpod"
    assert (
        engine_spec(warm_model(pod={"serviceAccountName": "my-warmpod"}))["serviceAccountName"]
        == "my-warmpod"
    )


def test_labels_of_the_pod() -> None:
    made = rendered(warm_model())
    assert made.engine_template["metadata"] == {
        "labels": {
            "app.kubernetes.io/managed-by": "warmpod",
            "warmpod.io/model": "llama",
            "warmpod.io/component": "engine",
            "warmpod.io/role": "serving",
            "warmpod.io/revision": made.hash,
            "warmpod.io/prefetch": made.prefetch_hash,
        }
    }


def test_nothing_is_empty_or_null() -> None:
    def empties(value: Any, path: str) -> list[str]:
        if value in (None, [], ""):
            return [path]
        if isinstance(value, dict):
            inner = [
                found for key, item in value.items() for found in empties(item, f"{path}.{key}")
            ]
            return inner if value or path.endswith(".emptyDir") else [path]
        if isinstance(value, list):
            return [f for i, item in enumerate(value) for f in empties(item, f"{path}[{i}]")]
        return []

    for medium in ("Image", "NodeMemory", "PodMemory"):
        made = rendered(warm_model(weights={"medium": medium, "size": "1Gi"}, pod={}))
        assert empties(made.engine_template, "engine") == []
        assert empties(made.prefetch_template, "prefetch") == []


def test_resources_are_the_users_as_written() -> None:
    resources = {"limits": {"nvidia.com/gpu": 1, "cpu": "1000m"}, "requests": {"memory": "8Gi"}}
    assert engine_container(warm_model(engine={"resources": resources}))["resources"] == resources
    assert "resources" not in engine_container(warm_model(engine={"resources": {"limits": {}}}))
