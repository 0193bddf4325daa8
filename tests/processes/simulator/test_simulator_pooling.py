"""Pooling and speech models: only their own routes, and answers that can be told apart."""

from __future__ import annotations

import base64
import io
import math
import struct
import uuid
import wave
from typing import Any

import pytest

from processes.simulator.asking import Answer, Start, get, metric, post
from simulator.harness import Simulator

COMMON = {"/detokenize", "/health", "/load", "/ping", "/tokenize", "/v1/models", "/version"}
SCORES = {"/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank"}


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("simulator", {"/v1/completions", "/v1/chat/completions"}),
        ("embedder", {"/v1/embeddings", "/pooling", *SCORES}),
        ("classifier", {"/classify", "/pooling"}),
        ("reranker", {"/classify", "/pooling", *SCORES}),
        ("transcriber", {"/v1/audio/transcriptions"}),
    ],
)
def test_only_the_routes_of_the_served_tasks(
    request: pytest.FixtureRequest, kind: str, own: set[str]
) -> None:
    simulator = request.getfixturevalue(kind)
    assert set(get(simulator, "/openapi.json").json["paths"]) == COMMON | own
    for path in {"/v1/completions", "/v1/embeddings", "/classify"} - own:
        assert post(simulator, path, {"prompt": "x", "input": "x"}).status == 404


def test_embeddings(embedder: Simulator) -> None:
    body = post(embedder, "/v1/embeddings", {"input": ["one two", "three"]}).json
    first, second = (entry["embedding"] for entry in body["data"])
    assert math.isclose(math.hypot(*first), 1)
    assert first != second
    assert (body["model"], body["usage"]["prompt_tokens"]) == ("tiny", 3)
    again = post(embedder, "/v1/embeddings", {"input": "one two", "encoding_format": "base64"}).json
    packed = base64.b64decode(again["data"][0]["embedding"])
    assert struct.unpack(f"<{len(first)}f", packed) == pytest.approx(first)
    small = post(embedder, "/v1/embeddings", {"input": "one", "dimensions": 8}).json
    assert len(small["data"][0]["embedding"]) == 8
    tokens = post(embedder, "/v1/embeddings", {"input": [[1, 2], [3]]}).json
    assert tokens["usage"]["prompt_tokens"] == 3
    assert metric(embedder, "vllm:prompt_tokens_total") > 0
    assert metric(embedder, "vllm:generation_tokens_total") == 0


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/embeddings", {}, "'loc': 'body.input', 'msg': 'Field required'"),
        ("/v1/embeddings", {"input": "x " * 33}, "maximum context length is 32"),
        ("/v1/embeddings", {"input": "x", "encoding_format": "hex"}, "Input should be 'float'"),
        ("/pooling", {"input": "x", "task": "classify"}, "Unsupported task: 'classify'"),
        ("/score", {"text_1": "x"}, "Field required"),
        ("/score", {"text_1": ["x", "y"], "text_2": ["a", "b", "c"]}, "1:1, 1:N or N:N"),
        ("/rerank", {"query": "x"}, "'loc': 'body.documents'"),
    ],
)
def test_refuses_with_400(
    embedder: Simulator, path: str, body: dict[str, Any], message: str
) -> None:
    answer = post(embedder, path, body)
    assert answer.status == 400
    assert message in answer.error


def test_pooling_of_each_task(embedder: Simulator, classifier: Simulator) -> None:
    def data(simulator: Simulator, **options: object) -> Any:
        return post(simulator, "/pooling", {"input": "one two", **options}).json["data"][0]["data"]

    assert len(data(embedder)) == 32
    assert [len(vector) for vector in data(embedder, task="token_embed")] == [32, 32]
    assert sum(data(classifier)) == pytest.approx(1)


def test_classes(classifier: Simulator) -> None:
    entry = post(classifier, "/classify", {"input": "one two"}).json["data"][0]
    assert entry["num_classes"] == len(entry["probs"]) == 3
    assert entry["label"] == f"LABEL_{entry['probs'].index(max(entry['probs']))}"


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_scores(reranker: Simulator, path: str) -> None:
    body = {"text_1": "a warm pod", "text_2": ["a warm pod", "something else"]}
    near, far = (entry["score"] for entry in post(reranker, path, body).json["data"])
    assert 0 <= far < near <= 1
    one = post(reranker, path, {"queries": "a", "documents": "b"}).json
    assert [entry["object"] for entry in one["data"]] == ["score"]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_rerank_has_the_best_first(reranker: Simulator, path: str) -> None:
    documents = ["something else", "a warm pod", "a cold pod"]
    body = {"query": "a warm pod", "documents": documents, "top_n": 2}
    results = post(reranker, path, body).json["results"]
    assert [result["index"] for result in results] == [1, 2]
    assert results[0]["document"]["text"] == "a warm pod"


def test_nan_is_null_in_json_and_nan_in_base64(start_simulator: Start) -> None:
    simulator = start_simulator("--runner=pooling", fault="nan-embeddings", first_seconds=0)
    body = post(simulator, "/v1/embeddings", {"input": "x"}).json
    assert set(body["data"][0]["embedding"]) == {None}
    body = post(simulator, "/v1/embeddings", {"input": "x", "encoding_format": "base64"}).json
    packed = base64.b64decode(body["data"][0]["embedding"])
    assert all(math.isnan(value) for value in struct.unpack("<32f", packed))
    scored = post(simulator, "/score", {"text_1": "x", "text_2": "y"})
    assert scored.error == "Out of range float values are not JSON compliant"


def sound(seconds: float) -> bytes:
    """Silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16000)
        written.writeframes(b"\0" * int(seconds * 32000))
    return file.getvalue()


def upload(simulator: Simulator, data: bytes | None, **fields: str) -> Answer:
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    if data is not None:
        head = 'Content-Disposition: form-data; name="file"; filename="a.wav"'
        parts.append(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n")
    body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return post(simulator, "/v1/audio/transcriptions", body, headers)


def test_transcription(transcriber: Simulator) -> None:
    found = upload(transcriber, sound(2.5), model="tiny").json
    assert found["usage"] == {"type": "duration", "seconds": 3}
    assert len(found["text"].split()) == 5
    assert upload(transcriber, sound(2.5), response_format="text").text == found["text"]
    verbose = upload(transcriber, sound(2.5), response_format="verbose_json").json
    assert (verbose["duration"], verbose["text"]) == (2.5, found["text"])
    chunks = [
        event["choices"][0] for event in upload(transcriber, sound(2.5), stream="true").events
    ]
    assert "".join(chunk["delta"]["content"] for chunk in chunks).strip() == found["text"]
    assert chunks[-1]["finish_reason"] == "stop"


def test_transcription_refuses(transcriber: Simulator) -> None:
    assert "body.file" in upload(transcriber, None, model="tiny").error
    assert upload(transcriber, b"noise").error == "Invalid or unsupported audio file."
    assert upload(transcriber, sound(1), model="other").status == 404
