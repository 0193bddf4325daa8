"""`kubectl warm golden record`, against a simulated engine and one that is made to misbehave."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from simulator import harness
from simulator.harness import Simulator
from support.waiting import wait_for
from unit.cli.test_main import kubeconfig
from warmpod.api.warmup import Warmup
from warmpod.cli import golden as command
from warmpod.cli.main import app
from warmpod.sidecar.golden import check, read_answer, request_for

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})

SERVICE = "/api/v1/namespaces/demo/services/http:tiny:http/proxy"

Answer = Callable[[str, dict[str, Any] | None], tuple[int, Any]]


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    log = tmp_path_factory.mktemp("simulator") / "log"
    started = harness.start_simulator(
        log, "--api-key", "secret", port=harness.free_port(), first_seconds=0
    )
    wait_for(lambda: started.health() == 200)
    yield started
    started.stop()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], int]]:
    """Starts a server that answers with what a function makes of path and body; its port."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(*answer(self.path, None))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(*answer(self.path, json.loads(body)))

            def reply(self, status: int, content: Any) -> None:
                data = (
                    content.encode() if isinstance(content, str) else json.dumps(content).encode()
                )
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return server.server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def record(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return runner.invoke(app, ["golden", "record", *arguments], env=env)


def warmup_of(result: Result) -> Warmup:
    """The printed block, as spec.warmup."""
    assert result.exit_code == 0, result.output
    return Warmup.model_validate_json(json.dumps(yaml.safe_load(result.stdout)))


def engine(*texts: str) -> Answer:
    """Answers completions with these texts in turn, one token a word."""
    left = list(texts)

    def answer(path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        if body is None:
            return 200, {"data": [{"id": "tiny"}]}
        words = left.pop(0).split()
        logprobs = {"tokens": words, "token_logprobs": [-0.5] * len(words)}
        shown = logprobs if body.get("logprobs") else None
        return 200, {"choices": [{"text": " ".join(words), "logprobs": shown}]}

    return answer


@pytest.mark.parametrize("endpoint", ["chat", "completion"])
def test_what_is_recorded_is_what_the_engine_is_checked_against(
    simulator: Simulator, endpoint: str
) -> None:
    result = record(
        *(simulator.base_url, "--prompt", "What is a pod?", "--prompt", "And a node?"),
        *("--endpoint", endpoint, "--max-tokens", "8"),
        env={"WARMPOD_API_KEY": "secret"},
    )
    items = warmup_of(result).golden
    assert [item.name for item in items] == ["what-is-a-pod", "and-a-node"]
    ask = command.engine_at(simulator.base_url, "secret")
    for item in items:
        assert item.text
        assert len(item.tokens or ()) == len(item.logprobs or ()) == 8
        where, body = request_for(item, "tiny")
        assert where == endpoint
        assert check(item, read_answer(where, ask(command.PATHS[where], body))) == ""


def test_prompts_of_a_file_without_log_probabilities(simulator: Simulator, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\n\n  two \none\n你好\n")
    arguments = ["--file", str(prompts), "--no-logprobs", "--api-key", "secret", "--model", "tiny"]
    items = warmup_of(record(simulator.base_url, *arguments)).golden
    assert [(item.name, item.prompt) for item in items] == [
        ("one", "one"),
        ("two", "two"),
        ("one-2", "one"),
        ("prompt", "你好"),
    ]
    assert all(item.text and item.tokens is None and item.logprobs is None for item in items)


def test_an_engine_that_wants_a_key(simulator: Simulator) -> None:
    result = record(simulator.base_url, "--prompt", "a", env={"WARMPOD_API_KEY": "wrong"})
    assert result.exit_code == 1
    assert "401: give the engine's key with --api-key" in result.stderr


def test_an_answer_that_differs_the_second_time_is_refused_and_the_others_recorded(serve) -> None:
    port = serve(engine("the same", "the same", "one thing", "one more", "last", "last"))
    result = record(
        *(f"http://127.0.0.1:{port}/", "--endpoint", "completion"),
        *("--prompt", "a", "--prompt", "b", "--prompt", "c"),
    )
    assert result.exit_code == 1
    assert [item["text"] for item in yaml.safe_load(result.stdout)["golden"]] == [
        "the same",
        "last",
    ]
    assert result.stderr == (
        "error: not recorded, because two answers at temperature 0 differ: golden b: "
        'expected "one thing", came "one more" at character 5\n'
    )


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param(("a", "a b"), "two answers at temperature 0 differ", id="a longer answer"),
        pytest.param(("", ""), "the answer is empty; take another prompt", id="an empty answer"),
    ],
)
def test_answers_that_cannot_be_recorded(serve, answers: tuple[str, str], message: str) -> None:
    port = serve(engine(*answers))
    result = record(
        f"http://127.0.0.1:{port}", "--endpoint", "completion", "--prompt", "x", "--no-logprobs"
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param((200, "<html>"), "not JSON: <html>", id="not JSON"),
        pytest.param((404, "no such path"), "404 no such path", id="another server"),
        pytest.param((200, {"data": []}), "name one with --model", id="no model"),
    ],
)
def test_servers_that_are_no_engine(serve, answer: tuple[int, Any], message: str) -> None:
    port = serve(lambda *_: answer)
    result = record(f"http://127.0.0.1:{port}", "--prompt", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_an_engine_that_sends_no_log_probabilities(serve) -> None:
    port = serve(lambda *_: (200, {"choices": [{"text": "a", "logprobs": None}]}))
    result = record(
        f"http://127.0.0.1:{port}", "--model", "a", "--endpoint", "completion", "--prompt", "x"
    )
    assert "leave them out with --no-logprobs" in result.stderr


def test_no_engine(unused_tcp_port: int) -> None:
    result = record(f"http://127.0.0.1:{unused_tcp_port}", "--prompt", "x")
    assert f"no answer from http://127.0.0.1:{unused_tcp_port}" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "give --prompt or --file", id="no prompt"),
        pytest.param(["--prompt", "a" * 8193], "prompt: String should have", id="a long prompt"),
        pytest.param(["--file", "/absent"], "No such file", id="no file"),
    ],
)
def test_nothing_is_asked_without_usable_prompts(arguments: list[str], message: str) -> None:
    result = record("http://127.0.0.1:1", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_warm_model_is_asked_through_its_service(serve, tmp_path: Path) -> None:
    asked: list[str] = []
    inner = engine("Paris", "Paris")

    def answer(path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        asked.append(path)
        return inner(path, body)

    config = kubeconfig(tmp_path, serve(answer))
    result = record("tiny", "--kubeconfig", config, "--endpoint", "completion", "--prompt", "x")
    assert warmup_of(result).golden[0].text == "Paris"
    assert asked == [f"{SERVICE}/v1/models", *[f"{SERVICE}/v1/completions"] * 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            (404, {"message": 'services "tiny" not found'}),
            "there is no /v1/models of WarmModel demo/tiny",
            id="no such service",
        ),
        pytest.param(
            (503, {"message": 'no endpoints available for service "tiny"'}),
            "503 no endpoints available",
            id="no warm pod",
        ),
        pytest.param(
            (400, {"error": {"message": "too long", "code": 400}}),
            "400 too long",
            id="the engine says no",
        ),
        pytest.param((401, {"error": "Unauthorized"}), "Unauthorized", id="the engine has a key"),
    ],
)
def test_a_warm_model_that_cannot_be_asked(
    serve, tmp_path: Path, answer: tuple[int, Any], message: str
) -> None:
    config = kubeconfig(tmp_path, serve(lambda *_: answer))
    result = record("tiny", "--kubeconfig", config, "--prompt", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
