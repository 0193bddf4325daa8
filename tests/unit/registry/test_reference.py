"""References, with what is left out filled in as the kubelet does it."""

from __future__ import annotations

import pytest

from warmpod.registry.reference import parse_reference


@pytest.mark.parametrize(
    ("image", "url", "tag"),
    [
        ("vllm/vllm-openai:v1", "https://registry-1.docker.io/v2/vllm/vllm-openai", "v1"),
        ("busybox", "https://registry-1.docker.io/v2/library/busybox", "latest"),
        ("docker.io/busybox:1", "https://registry-1.docker.io/v2/library/busybox", "1"),
        ("quay.io/a/b/c:1.0", "https://quay.io/v2/a/b/c", "1.0"),
        ("host:5000/a", "https://host:5000/v2/a", "latest"),
        ("localhost/a:1", "http://localhost/v2/a", "1"),
        ("localhost:5000/a:1", "http://localhost:5000/v2/a", "1"),
        ("127.0.0.1:5000/a:1", "http://127.0.0.1:5000/v2/a", "1"),
        ("registry.local:5000/a:1", "http://registry.local:5000/v2/a", "1"),
        ("not-local.example.com/a:1", "https://not-local.example.com/v2/a", "1"),
    ],
)
def test_references(image: str, url: str, tag: str) -> None:
    reference = parse_reference(image)
    assert (reference.base_url, reference.tag) == (url, tag)
