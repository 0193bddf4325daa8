"""Who is let in."""

from collections.abc import Mapping
from typing import Any

import pytest

from support.cluster_tokens import AUDIENCE, ISSUER, OPERATOR, TokenSigner
from warmpod.podstatus import PodStatusError
from warmpod.protocol import control_audience, service_account_user
from warmpod.sidecar import tokens
from warmpod.sidecar.tokens import TokenRefused, TokenVerifier


class Cluster:
    """What a pod reads of the API server."""

    def __init__(self) -> None:
        self.signer = TokenSigner()
        self.away = False
        self.reads: list[str] = []

    async def read(self, path: str) -> Mapping[str, Any]:
        self.reads.append(path)
        if self.away:
            raise PodStatusError("no answer")
        return self.signer.keys() if path == "/openid/v1/jwks" else self.signer.discovery()


@pytest.fixture(scope="module")
def stranger() -> TokenSigner:
    return TokenSigner()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def verifier(cluster: Cluster) -> TokenVerifier:
    return TokenVerifier(cluster.read, AUDIENCE, OPERATOR)


async def refusal(verifier: TokenVerifier, header: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        await verifier.verify(header)
    return str(refused.value)


async def test_the_operator_is_let_in(cluster: Cluster, verifier: TokenVerifier) -> None:
    for _ in range(3):
        await verifier.verify(f"Bearer {cluster.signer.sign()}")
    assert len(cluster.reads) == 2


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"audience": control_audience("models", "other")}, "InvalidAudienceError"),
        ({"audience": control_audience("elsewhere", "tiny")}, "InvalidAudienceError"),
        ({"audience": None}, "MissingRequiredClaimError"),
        ({"audience": ISSUER}, "InvalidAudienceError"),
        ({"issuer": "https://example.com"}, "InvalidIssuerError"),
        ({"lives_seconds": -60}, "ExpiredSignatureError"),
        (
            {"subject": service_account_user("models", "default")},
            "it is of system:serviceaccount:models:default",
        ),
    ],
)
async def test_others_are_not(
    cluster: Cluster, verifier: TokenVerifier, claims: dict[str, Any], why: str
) -> None:
    assert why in await refusal(verifier, f"Bearer {cluster.signer.sign(**claims)}")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic abc", "Bearer a.b.c"])
async def test_what_is_no_token(verifier: TokenVerifier, header: str) -> None:
    await refusal(verifier, header)


async def test_a_signature_of_somebody_else(
    cluster: Cluster, verifier: TokenVerifier, stranger: TokenSigner
) -> None:
    assert "no key" in await refusal(verifier, f"Bearer {stranger.sign()}")
    head, body, _ = cluster.signer.sign().split(".")
    signature = stranger.sign().split(".")[2]
    forged = f"Bearer {head}.{body}.{signature}"
    assert "Signature" in await refusal(verifier, forged)


async def test_unsigned_and_symmetric_tokens(cluster: Cluster, verifier: TokenVerifier) -> None:
    import jwt

    await verifier.load()
    key_id = cluster.signer.keys()["keys"][0]["kid"]
    claims = {"iss": ISSUER, "sub": OPERATOR, "aud": [AUDIENCE], "exp": 4102444800}
    for algorithm, key in (("none", None), ("HS256", "k" * 32)):
        token = jwt.encode(claims, key, algorithm, {"kid": key_id})
        await refusal(verifier, f"Bearer {token}")


async def test_a_new_key_is_found(
    cluster: Cluster, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    await verifier.load()
    cluster.signer.rotate()
    token = f"Bearer {cluster.signer.sign()}"
    assert "no key" in await refusal(verifier, token)  # it has only just looked
    monkeypatch.setattr(tokens, "RELOAD_SECONDS", 0.0)
    await verifier.verify(token)


async def test_unknown_keys_do_not_make_it_ask_each_time(
    cluster: Cluster, verifier: TokenVerifier, stranger: TokenSigner
) -> None:
    for _ in range(20):
        await refusal(verifier, f"Bearer {stranger.sign()}")
    assert len(cluster.reads) == 2


async def test_the_last_keys_are_kept_while_the_api_server_is_away(
    cluster: Cluster,
    verifier: TokenVerifier,
    stranger: TokenSigner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "RELOAD_SECONDS", 0.0)
    await verifier.load()
    cluster.away = True
    await refusal(verifier, f"Bearer {stranger.sign()}")  # makes it look again, in vain
    await verifier.verify(f"Bearer {cluster.signer.sign()}")


async def test_nobody_is_let_in_before_the_api_server_was_seen(
    cluster: Cluster, verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "RELOAD_SECONDS", 0.0)
    cluster.away = True
    token = f"Bearer {cluster.signer.sign()}"
    assert "could not be asked" in await refusal(verifier, token)
    cluster.away = False
    await verifier.verify(token)
