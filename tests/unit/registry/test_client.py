import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from support.registry import serving
from warmpod.registry.answers import Answer
from warmpod.registry.authorization import _token_in
from warmpod.registry.client import opened
from warmpod.registry.credentials import Credential
from warmpod.registry.errors import Denied, NotFound, RegistryError, Unreachable

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NO_WAITING = (0.0, 0.0)
ME = Credential("me", "secret")


async def test_a_manifest_by_tag_and_by_digest() -> None:
    with serving() as registry:
        digest = registry.put_manifest("1.0", MANIFEST, b"{}")
        async with opened(f"{registry.host}/x", None) as client:
            assert await client.manifest("1.0") == b"{}"
            assert await client.manifest(digest) == b"{}"
            with pytest.raises(NotFound, match=f"{registry.host}/x:2"):
                await client.manifest("2")


async def test_other_content_than_the_digest_s_is_refused() -> None:
    with serving() as registry:
        digest = registry.put_manifest("1.0", MANIFEST, b"{}")
        registry.manifests[digest] = (MANIFEST, b"[]")
        async with opened(f"{registry.host}/x", None) as client:
            with pytest.raises(RegistryError, match="other content"):
                await client.manifest(digest)


@pytest.mark.parametrize("tokens", [False, True])
async def test_credentials_are_used_when_asked_for(tokens: bool) -> None:
    with serving({"me": "secret"}, tokens) as registry:
        registry.put_manifest("1.0", MANIFEST, b"{}")
        async with opened(f"{registry.host}/x", ME) as client:
            assert await client.manifest("1.0") == b"{}"
            assert await client.manifest("1.0") == b"{}"
        assert registry.count("GET /token") == int(tokens)


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("credential", [None, Credential("me", "wrong")])
async def test_wrong_credentials_and_none(credential: Credential | None, tokens: bool) -> None:
    with serving({"me": "secret"}, tokens) as registry:
        async with opened(f"{registry.host}/x", credential) as client:
            with pytest.raises(Denied):
                await client.manifest("1.0")


async def test_a_token_that_ran_out_is_renewed() -> None:
    with serving({"me": "secret"}, tokens=True) as registry:
        registry.put_manifest("1.0", MANIFEST, b"{}")
        registry.faults.token_requests = 1
        async with opened(f"{registry.host}/x", ME) as client:
            for _ in range(3):
                await client.manifest("1.0")
        assert registry.count("GET /token") == 3


async def test_the_registry_s_own_trouble_is_waited_out() -> None:
    with serving() as registry:
        registry.put_manifest("1.0", MANIFEST, b"{}")
        registry.faults.statuses = [503, 429]
        async with opened(f"{registry.host}/x", None, delays=NO_WAITING) as client:
            assert await client.manifest("1.0") == b"{}"


async def test_lasting_trouble_is_reported_with_the_registry_s_words() -> None:
    with serving() as registry:
        registry.faults.statuses = [503] * 3
        async with opened(f"{registry.host}/x", None, delays=NO_WAITING) as client:
            with pytest.raises(Unreachable, match="503 UNAVAILABLE a bad day"):
                await client.manifest("1.0")


async def test_a_registry_that_is_down() -> None:
    with serving() as registry:
        host = registry.host
    async with opened(f"{host}/x", None, delays=NO_WAITING) as client:
        with pytest.raises(Unreachable, match=host):
            await client.manifest("1.0")


async def test_an_endless_answer_is_cut_off() -> None:
    with serving() as registry:
        registry.put_manifest("1.0", MANIFEST, b" " * (5 * 2**20))
        async with opened(f"{registry.host}/x", None) as client:
            with pytest.raises(RegistryError, match="more than"):
                await client.manifest("1.0")


def test_an_upload_location_that_is_none() -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Location": "http://[::1/x", "Retry-After": "\xb2"}))
    answer = Answer(202, headers, b"", URL("https://registry.example.com/v2/"))
    assert answer.retry_after is None
    with pytest.raises(RegistryError, match="an address that is none"):
        assert answer.location


@pytest.mark.parametrize("token", ['"a\\nb"', "7", '""', "[" * 100_000])
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(RegistryError, match="without a token"):
        _token_in("https://auth.example.com", 200, f'{{"token": {token}}}'.encode())
