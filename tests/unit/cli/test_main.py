"""The commands, against a stand-in for the API server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import yaml
from typer.testing import CliRunner

from unit.cli import documents
from unit.weights.models import make_model
from warmpod.cli.main import app

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})

MODEL_PATH = "/apis/warmpod.io/v1alpha1/namespaces/demo/warmmodels/tiny"


def not_found() -> dict:
    return {"kind": "Status", "message": 'warmmodels.warmpod.io "tiny" not found', "code": 404}


class Api:
    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.answer(MODEL_PATH, documents.warm_model())
        self.answer("/api/v1/namespaces/demo/pods", {"items": documents.pods()})
        self.queries: list[str] = []
        self.patches: list[tuple[str, str, dict]] = []
        """Path, type of the content, and body."""

    def answer(self, path: str, body: object, status: int = 200) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[path] = (status, content)


@pytest.fixture
def api() -> Iterator[tuple[Api, int]]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.patches.append((self.path, self.headers["Content-Type"], body))
            self.do_GET()

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            api.queries.append(query)
            status, body = api.answers.get(path, (404, b"404 page not found"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield api, server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def kubeconfig(folder: Path, port: int) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "demo"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def config(api, tmp_path: Path) -> str:
    return kubeconfig(tmp_path, api[1])


def test_status_in_the_namespace_of_the_context(api, config) -> None:
    result = runner.invoke(app, ["status", "tiny", "--kubeconfig", config])
    assert result.exit_code == 0, result.output
    assert "1 of 2 ready" in result.output
    assert parse_qs(api[0].queries[-1]) == {"labelSelector": ["warmpod.io/model=tiny"]}


def test_now_sets_another_text_each_time(api, config) -> None:
    for _ in range(2):
        result = runner.invoke(app, ["now", "tiny", "--kubeconfig", config])
        assert result.exit_code == 0, result.output
    texts = set()
    for path, content_type, body in api[0].patches:
        assert (path, content_type) == (MODEL_PATH, "application/merge-patch+json")
        (text,) = body["metadata"]["annotations"].values()
        assert body == {"metadata": {"annotations": {"warmpod.io/warm-now": text}}}
        texts.add(text)
    assert len(texts) == 2


def test_now_says_what_one_may_not(api, config) -> None:
    api[0].answer(MODEL_PATH, {"message": "user x cannot patch"}, status=403)
    result = runner.invoke(app, ["now", "tiny", "--kubeconfig", config])
    assert result.exit_code == 1
    assert "you may not change WarmModel demo/tiny: user x cannot patch" in result.output


def test_nothing_is_wrapped_where_there_is_no_terminal(api, config) -> None:
    message = "shard of a long name is not what the manifest says, " * 20
    model = documents.warm_model()
    model["status"]["conditions"][0]["message"] = message
    api[0].answer(MODEL_PATH, model)
    result = runner.invoke(app, ["status", "tiny", "--kubeconfig", config])
    assert message.strip() in result.output
    assert not any(line.endswith(" ") for line in result.output.splitlines())


def test_timeline(config) -> None:
    arguments = ["timeline", "tiny", "-n", "demo", "--kubeconfig", config, "--context", "c"]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "load the weights" in result.output


@pytest.mark.parametrize(
    ("output", "begins"),
    [("svg", "<svg"), ("html", "<!DOCTYPE html>"), ("json", "["), ("text", "tiny-1")],
)
def test_timeline_into_a_file(config, tmp_path: Path, output: str, begins: str) -> None:
    path = tmp_path / "drawn"
    arguments = ["timeline", "tiny", "--kubeconfig", config, "-o", output]
    result = runner.invoke(app, [*arguments, "--output-file", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output == ""
    assert path.read_text().startswith(begins)


def test_timeline_as_svg_on_standard_output(config) -> None:
    result = runner.invoke(app, ["timeline", "tiny", "--kubeconfig", config, "-o", "svg"])
    assert result.output.startswith("<svg")


def test_a_file_that_cannot_be_written(config, tmp_path: Path) -> None:
    arguments = ["timeline", "tiny", "--kubeconfig", config, "-o", "svg"]
    output = fails([*arguments, "--output-file", str(tmp_path)])
    assert "cannot be written: Is a directory" in output


def fails(arguments: list[str]) -> str:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    return result.output


def test_no_such_warm_model(api, config) -> None:
    api[0].answer(MODEL_PATH, not_found(), 404)
    assert fails(["status", "tiny", "--kubeconfig", config]) == (
        "error: there is no WarmModel demo/tiny\n"
    )


def test_warmpod_is_not_installed(config) -> None:
    output = fails(["status", "tiny", "-n", "other", "--kubeconfig", config])
    assert "install warmpod first" in output


@pytest.mark.parametrize("status", [401, 403])
def test_not_allowed(api, config, status: int) -> None:
    api[0].answer(MODEL_PATH, {"message": "user x cannot get"}, status)
    output = fails(["status", "tiny", "--kubeconfig", config])
    assert "you may not read WarmModel demo/tiny: user x cannot get" in output


def test_the_api_server_is_ill(api, config) -> None:
    api[0].answer(MODEL_PATH, b"etcd is down\nbadly", 500)
    output = fails(["status", "tiny", "--kubeconfig", config])
    assert "cannot be read: 500 etcd is down" in output


def test_no_cluster(tmp_path: Path, unused_tcp_port: int) -> None:
    output = fails(["status", "tiny", "--kubeconfig", kubeconfig(tmp_path, unused_tcp_port)])
    assert f"no answer from the cluster at http://127.0.0.1:{unused_tcp_port}" in output


def test_no_kubeconfig(tmp_path: Path) -> None:
    output = fails(["status", "tiny", "--kubeconfig", str(tmp_path / "absent")])
    assert output.startswith("error: no usable kubeconfig")


def test_a_kubeconfig_that_is_not_yaml(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{")
    assert "no usable kubeconfig" in fails(
        ["status", "tiny", "--kubeconfig", str(tmp_path / "bad")]
    )


def test_no_such_context(config) -> None:
    output = fails(["status", "tiny", "--kubeconfig", config, "--context", "nowhere"])
    assert "nowhere" in output


def test_pack_names_the_digest_and_how_to_push(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    result = runner.invoke(app, ["pack", str(model), str(tmp_path / "layout")])
    assert result.exit_code == 0, result.output
    assert "sha256:" in result.output
    assert f"crane push {tmp_path / 'layout'} " in result.output
    assert f"skopeo copy --all oci:{tmp_path / 'layout'} " in result.output


def test_pack_refuses_in_one_line(tmp_path: Path) -> None:
    assert "cannot be listed" in fails(["pack", str(tmp_path / "no"), str(tmp_path / "layout")])


# --- plan -----------------------------------------------------------------------------------------

PLAN = {
    "buckets": [
        {
            "name": "chat/stream/sampled/p16/c8",
            "endpoint": "chat",
            "stream": True,
            "concurrency": 8,
            "requests": 8,
            "tokens": 160,
            "what": "8 requests at once [really]",
        }
    ],
    "notes": ["image/small is left out: 400"],
}
PROXY = "/api/v1/namespaces/demo/pods/tiny-1%3A9180/proxy/plan"

WARM_MODEL = """
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: warmpod.io/v1alpha1
kind: WarmModel
metadata: {name: tiny}
spec:
  model: {image: m}
  engine: {image: e, args: [--max-model-len=2k, --max-num-seqs=4]}
  warmup:
    prompts: [{name: mine, text: Tell me.}]
    promptsFrom: [{configMap: more}]
"""


def plan_of(folder: Path, text: str) -> list[str]:
    (folder / "model.yaml").write_text(text)
    return ["plan", "-f", str(folder / "model.yaml")]


def test_plan_of_a_file_needs_no_cluster(tmp_path: Path) -> None:
    result = runner.invoke(app, plan_of(tmp_path, WARM_MODEL))
    assert result.exit_code == 0, result.output
    assert "chat/stream/sampled/p16/c4 " in result.output
    assert "user/mine#" in result.output
    assert "A round has " in result.output
    assert "Note: prompts of ConfigMap more are known to the pods only" in result.output


def test_plan_as_json(tmp_path: Path) -> None:
    result = runner.invoke(app, [*plan_of(tmp_path, WARM_MODEL), "-o", "json"])
    document = json.loads(result.output)
    names = [bucket["name"] for bucket in document["buckets"]]
    assert names[0] == "chat/stream/sampled/p16/c1"
    assert max(bucket["concurrency"] for bucket in document["buckets"]) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "model.yaml: "),
        ("kind: Pod", "holds 0 WarmModels"),
        (f"{WARM_MODEL}---{WARM_MODEL}", "holds 2 WarmModels: give a file with one"),
        ("kind: WarmModel", "metadata.name: is missing"),
        (WARM_MODEL.replace("promptsFrom", "promptsFor"), "spec.warmup.promptsFor: is not known"),
    ],
)
def test_a_file_without_a_plan(tmp_path: Path, text: str, words: str) -> None:
    assert words in fails(plan_of(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    assert "No such file" in fails(["plan", "-f", str(tmp_path / "absent")])


@pytest.mark.parametrize("arguments", [[], ["tiny", "-f", "x"]])
def test_plan_of_one_thing_only(arguments: list[str]) -> None:
    assert "either the name of a running WarmModel or -f FILE" in fails(["plan", *arguments])


def test_plan_of_a_running_pod(api, config) -> None:
    api[0].answer("/api/v1/namespaces/demo/pods", {"items": documents.pods()[:1]})
    api[0].answer(PROXY, PLAN)
    result = runner.invoke(app, ["plan", "tiny", "--kubeconfig", config])
    assert result.exit_code == 0, result.output
    assert "chat/stream/sampled/p16/c8" in result.output
    assert "8 requests at once [really]" in result.output
    assert "A round has 8 requests and about 160 tokens." in result.output
    assert "Note: image/small is left out: 400" in result.output


def test_no_pod_runs(api, config) -> None:
    api[0].answer("/api/v1/namespaces/demo/pods", {"items": documents.pods()[2:]})
    assert "no engine pod of tiny runs" in fails(["plan", "tiny", "--kubeconfig", config])


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"404: Not Found", "the pod's sidecar is of another version"),
        (
            403,
            {"message": "cannot get pods/proxy"},
            "you may not read page /plan of pod demo/tiny-1",
        ),
        (503, {"message": "no endpoints"}, "cannot be read: 503 no endpoints"),
        (200, b"hello", "is not JSON"),
    ],
)
def test_a_plan_that_cannot_be_read(api, config, status: int, body: object, words: str) -> None:
    api[0].answer("/api/v1/namespaces/demo/pods", {"items": documents.pods()[:1]})
    api[0].answer(PROXY, body, status)
    assert words in fails(["plan", "tiny", "--kubeconfig", config])
