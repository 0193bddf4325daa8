"""Features that kill the engine, found by the engine's death while one was first played.

Such a feature is left out at the next boot: a user who sends it kills the engine with warmpod or
without, but a warm-up that sends it at every boot would keep a pod out that serves all the rest.
Only features that the engine might have refused count, adapters, and the user's own prompts. An
engine that dies of a plain request is left to the launcher, which gives up after a few boots."""

from collections.abc import Iterator

from warmpod.sidecar.record import Record


class Culprits:
    """By the names of buckets; lives as long as the sidecar, over many boots."""

    def __init__(self) -> None:
        self._boots: dict[str, str] = {}

    def boot_died(self, boot_id: str, record: Record) -> None:
        bucket = record.playing
        if bucket and bucket not in record.succeeded and record.may_be_refused(bucket):
            self._boots[bucket] = boot_id

    @property
    def buckets(self) -> tuple[str, ...]:
        return tuple(self._boots)

    def notes(self) -> Iterator[str]:
        for bucket, boot in self._boots.items():
            yield f"{bucket} is left out: boot {boot} died when it was first played"
