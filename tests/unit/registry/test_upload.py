import random
from collections.abc import Iterator

import pytest

from support.registry import Registry, digest_of, serving
from warmpod.registry.client import opened
from warmpod.registry.credentials import Credential
from warmpod.registry.errors import RegistryError, Unreachable
from warmpod.registry.upload import push_blob

CONTENT = random.Random(1).randbytes(700_000)
DIGEST = digest_of(CONTENT)
NO_WAITING = (0.0, 0.0, 0.0)


class Blob:
    """Comes in pieces of a size that fits nothing else."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.size = len(content)

    def read(self, start: int) -> Iterator[bytes]:
        for begin in range(start, self.size, 33_333):
            yield self.content[begin : begin + 33_333]


async def pushed(
    registry: Registry, blob: Blob | None = None, credential: Credential | None = None
) -> tuple[bool, int]:
    """Whether it was sent, and the bytes that progress tells of."""
    told: list[int] = []
    async with opened(f"{registry.host}/a/b", credential, "pull,push", NO_WAITING) as client:
        sent = await push_blob(client, DIGEST, blob or Blob(), told.append)
    return sent, sum(told)


async def test_a_blob_is_sent_once() -> None:
    with serving() as registry:
        assert await pushed(registry) == (True, len(CONTENT))
        assert registry.blobs[DIGEST] == CONTENT
        assert await pushed(registry) == (False, len(CONTENT))
        assert registry.count("POST") == 1


async def test_an_empty_blob() -> None:
    with serving() as registry:
        async with opened(f"{registry.host}/x", None, "pull,push") as client:
            assert await push_blob(client, digest_of(b""), Blob(b""), lambda count: None)
        assert registry.blobs == {digest_of(b""): b""}


async def test_a_cut_upload_goes_on_where_the_registry_says() -> None:
    with serving() as registry:
        registry.faults.cut_after = [300_000, 200_000]
        assert await pushed(registry) == (True, len(CONTENT))
        assert registry.blobs[DIGEST] == CONTENT
        assert registry.received == len(CONTENT)
        assert registry.count("POST") == 1


async def test_a_registry_that_cannot_go_on_gets_the_blob_again() -> None:
    with serving() as registry:
        registry.faults.resumable = False
        registry.faults.cut_after = [300_000]
        assert await pushed(registry) == (True, len(CONTENT))
        assert registry.received == len(CONTENT) + 300_000


async def test_random_cuts_never_change_the_content() -> None:
    chance = random.Random(7)
    for _ in range(15):
        with serving() as registry:
            registry.faults.resumable = chance.random() < 0.7
            registry.faults.cut_after = [chance.randint(0, len(CONTENT)) for _ in range(3)]
            assert await pushed(registry) == (True, len(CONTENT))
            assert registry.blobs[DIGEST] == CONTENT


async def test_cuts_with_progress_are_endured_for_as_long_as_it_takes() -> None:
    with serving() as registry:
        registry.faults.cut_after = [50_000] * 12
        assert await pushed(registry) == (True, len(CONTENT))


async def test_cuts_without_progress_end_it() -> None:
    with serving() as registry:
        registry.faults.cut_after = [0] * 100
        with pytest.raises(Unreachable, match="gave up after 4 attempts"):
            await pushed(registry)


async def test_trouble_of_the_registry_during_an_upload() -> None:
    with serving() as registry:
        registry.faults.statuses = [503, 503]
        assert await pushed(registry) == (True, len(CONTENT))


async def test_a_commit_whose_answer_got_lost() -> None:
    with serving() as registry:
        registry.faults.lost_commits = 1
        assert await pushed(registry) == (True, len(CONTENT))
        assert registry.count("POST") == 1


async def test_a_registry_that_forgot_what_it_took() -> None:
    with serving() as registry:
        registry.faults.forgotten_uploads = 1
        assert await pushed(registry) == (True, len(CONTENT))
        assert registry.blobs[DIGEST] == CONTENT


async def test_tokens_run_out_during_an_upload() -> None:
    with serving({"me": "secret"}, tokens=True) as registry:
        registry.faults.token_requests = 3
        registry.faults.cut_after = [100_000, 100_000]
        assert await pushed(registry, credential=Credential("me", "secret"))
        assert registry.blobs[DIGEST] == CONTENT


async def test_other_content_than_was_hashed_is_refused() -> None:
    with serving() as registry:
        with pytest.raises(RegistryError, match="DIGEST_INVALID another; was a file changed"):
            await pushed(registry, Blob(CONTENT[:-1] + b"x"))
        assert registry.blobs == {}


async def test_a_body_that_is_too_large_for_a_proxy() -> None:
    with serving() as registry:
        registry.faults.statuses = [404, 413]
        with pytest.raises(RegistryError, match="limits the size"):
            await pushed(registry)


async def test_what_keeps_the_blob_from_being_read_is_not_repeated() -> None:
    class Broken(Blob):
        def read(self, start: int) -> Iterator[bytes]:
            yield b"x" * 1000
            raise ValueError("the disk is gone")

    with serving() as registry:
        with pytest.raises(ValueError, match="the disk is gone"):
            await pushed(registry, Broken())
        # Another attempt would ask first how far this one got.
        assert registry.count("GET") == 0
