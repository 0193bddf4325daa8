"""What is known of a boot's warm-up, for /status, the metrics and the time line."""

from dataclasses import dataclass, field

from warmpod.sidecar.comparison import Comparison
from warmpod.sidecar.memory import WarmMemory
from warmpod.sidecar.planning import ADAPTER, USER, Plan, Served
from warmpod.sidecar.steady import Round

# A boot may live for months, and words of the engine may differ each time.
MOST_NOTES = 200


@dataclass
class Record:
    version: str = ""
    served: Served | None = None
    plan: Plan = field(default_factory=lambda: Plan(()))
    rounds: list[Round] = field(default_factory=list)
    played: int = 0
    judgement: str = ""
    notes: list[str] = field(default_factory=list)
    # Counted by the engine's log and the launcher since the boot started.
    late_compiles: int = 0
    cache_growth: int = 0
    # The bucket that is played now; those that were played with success; those that are first
    # tried because an engine may refuse them.
    playing: str = ""
    tried: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)
    # Buckets of the plan that are not played: the engine refuses them, or a round got too long.
    left_out: set[str] = field(default_factory=set)
    # Buckets that a sidecar before this one has played.
    proven: frozenset[str] = frozenset()
    memory: WarmMemory | None = None
    comparison: Comparison | None = None
    canary_failures: int = 0
    # How often old evidence was renewed.
    renewed: int = 0
    # What was exercised after the gate had opened: new adapters, new prompts.
    added: list[str] = field(default_factory=list)

    def now_playing(self, bucket: str) -> None:
        self.playing = bucket

    def now_trying(self, bucket: str) -> None:
        self.playing = bucket
        self.tried.add(bucket)

    def may_be_refused(self, bucket: str) -> bool:
        return bucket in self.tried or bucket.startswith((USER, ADAPTER))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes = [*self.notes, text][-MOST_NOTES:]
