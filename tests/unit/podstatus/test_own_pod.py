import ssl
from pathlib import Path

import pytest

from support.certificates import make_certificates
from support.pod_api import IDENTITY, fake_api
from warmpod.podstatus import OwnPod, PodStatusError


async def test_patch_names_the_pod_by_uid_and_touches_one_condition(tmp_path: Path) -> None:
    async with fake_api() as api:
        pod = api.own_pod(tmp_path)
        await pod.set_condition("warmpod.io/Warm", "True", "Warm", "it is")
        await pod.close()
    assert api.uids == [IDENTITY.uid]
    assert api.queries == [{"fieldManager": "warmpod-sidecar"}]
    assert api.headers[0]["Content-Type"] == "application/strategic-merge-patch+json"
    assert api.headers[0]["Authorization"] == "Bearer token-1"
    [patch] = api.patches
    assert patch.pop("lastTransitionTime").endswith("Z")
    assert patch == {
        "type": "warmpod.io/Warm",
        "status": "True",
        "reason": "Warm",
        "message": "it is",
    }


async def test_token_is_read_again_for_each_call(tmp_path: Path) -> None:
    async with fake_api() as api:
        pod = api.own_pod(tmp_path)
        await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
        (tmp_path / "token").write_text("token-2")
        await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
        await pod.close()
    assert [headers["Authorization"] for headers in api.headers] == [
        "Bearer token-1",
        "Bearer token-2",
    ]


async def test_refusal_says_what_was_refused(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.failing = True
        pod = api.own_pod(tmp_path)
        with pytest.raises(PodStatusError, match=r"warmpod.io/Warm: 500 etcd is away"):
            await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
        await pod.close()


async def test_unreachable_api_server(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    pod = OwnPod(IDENTITY, "http://127.0.0.1:1", tmp_path)
    with pytest.raises(PodStatusError):
        await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
    with pytest.raises(PodStatusError):
        await pod.warm_model("tiny")


@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        (None, None),
        ({"code": 401}, None),
        ({"code": 403}, None),
        ({"metadata": {"name": "tiny", "uid": "u-1"}}, "u-1"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, None),
    ],
)
async def test_warm_model(
    tmp_path: Path, answer: dict[str, object] | None, uid: str | None
) -> None:
    async with fake_api() as api:
        if answer is not None:
            api.warm_models["tiny"] = answer
        pod = api.own_pod(tmp_path)
        found = await pod.warm_model("tiny")
        assert (found and found["metadata"]["uid"]) == uid
        await pod.close()


@pytest.mark.parametrize(
    "namespace",
    [{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"code": 401}, {"code": 403}],
)
async def test_warm_model_goes_with_its_namespace(
    tmp_path: Path, namespace: dict[str, object]
) -> None:
    async with fake_api() as api:
        api.warm_models["tiny"] = {"metadata": {"name": "tiny", "uid": "u-1"}}
        api.namespace = namespace
        pod = api.own_pod(tmp_path)
        assert await pod.warm_model("tiny") is None
        await pod.close()


async def test_warm_model_lookup_that_fails_is_not_an_answer(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.warm_models["tiny"] = {"code": 500}
        pod = api.own_pod(tmp_path)
        with pytest.raises(PodStatusError, match="500"):
            await pod.warm_model("tiny")
        await pod.close()


async def test_server_certificate_is_checked_against_the_mounted_ca(tmp_path: Path) -> None:
    make_certificates(tmp_path, "api", "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "api.crt", tmp_path / "api.key")
    async with fake_api(context) as api:
        pod = api.own_pod(tmp_path)
        (tmp_path / "ca.crt").write_bytes((tmp_path / "other.crt").read_bytes())
        with pytest.raises(PodStatusError):
            await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
        (tmp_path / "ca.crt").write_bytes((tmp_path / "api.crt").read_bytes())
        await pod.set_condition("warmpod.io/Warm", "True", "Warm", "")
        await pod.close()
    assert len(api.patches) == 1


def test_from_environment(tmp_path: Path) -> None:
    environment = {
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
        "POD_NAMESPACE": "models",
        "POD_NAME": "tiny-0",
        "POD_UID": "uid-1",
    }
    pod = OwnPod.from_environment(environment, tmp_path)
    assert pod.identity == IDENTITY
    del environment["POD_UID"]
    with pytest.raises(PodStatusError, match="POD_UID"):
        OwnPod.from_environment(environment, tmp_path)


@pytest.mark.parametrize(
    ("metadata", "leaving"),
    [
        ({}, False),
        ({"deletionTimestamp": "2030-01-01T12:00:00Z"}, True),
        ({"annotations": {"deletionTimestamp": "x"}}, False),
    ],
)
async def test_an_answer_tells_whether_the_pod_is_being_deleted(
    tmp_path: Path, metadata: dict[str, object], leaving: bool
) -> None:
    async with fake_api() as api:
        api.metadata = metadata
        pod = api.own_pod(tmp_path)
        await pod.set_condition("warmpod.io/Warm", "False", "SidecarStarting", "")
        await pod.close()
    assert pod.leaving.is_set() is leaving
