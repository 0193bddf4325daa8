"""Plays a plan, round by round, until its latency has settled."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from warmpod.api.warmup import Warmup
from warmpod.sidecar import steady
from warmpod.sidecar.planning import Plan
from warmpod.sidecar.record import Record
from warmpod.sidecar.rounds import Ask, PlayedRound, play_round
from warmpod.sidecar.steady import Judgement, Round, within

log = logging.getLogger(__name__)

# Until a compilation in the engine's log, or a new file in its caches, has come through the
# launcher, in seconds.
LATE_NEWS_SECONDS = 0.8

# A warm-up that never settles goes on for days. As many as spec.warmup.maxRounds may be.
KEPT_ROUNDS = 100

# All buckets are played this often, however long it takes; then a round has to fit.
WHOLE_ROUNDS = 2


class Settling:
    """`record` is read for what the engine compiled meanwhile, and told what is left out."""

    def __init__(self, plan: Plan, ask: Ask, record: Record, warmup: Warmup) -> None:
        self.plan = plan
        self.rounds: list[Round] = []
        self.played = 0
        self._ask = ask
        self._record = record
        self._warmup = warmup
        self._shortened = False

    async def play(self) -> tuple[PlayedRound, Judgement]:
        compiled, grown = self._record.late_compiles, self._record.cache_growth
        played = await play_round(self.plan, self._ask, self._record.now_playing)
        # An engine that dies of a bucket often answers first.
        self._record.now_playing(played.problems[0].bucket if played.problems else "")
        self._record.succeeded |= played.round.first_token.keys()
        if self._judge(self._finished(played, compiled, grown)).settled:
            await asyncio.sleep(LATE_NEWS_SECONDS)
        finished = self._finished(played, compiled, grown)
        judgement = self._judge(finished)
        self.played += 1
        self.rounds = [*self.rounds, finished][-KEPT_ROUNDS:]
        self._leave_out(played.refused)
        if self.played >= WHOLE_ROUNDS and not played.problems and not self._shortened:
            self._shorten(played)
        return played, judgement

    def _finished(self, played: PlayedRound, compiled: int, grown: int) -> Round:
        return replace(
            played.round,
            late_compiles=self._record.late_compiles - compiled,
            cache_growth=self._record.cache_growth - grown,
        )

    def _judge(self, latest: Round) -> Judgement:
        return steady.judge([*self.rounds, latest], self._warmup.tolerance_percent)

    def _shorten(self, played: PlayedRound) -> None:
        whole = self.plan.names
        self.plan, notes = within(self.plan, played.seconds, self._warmup.round_seconds)
        self._record.left_out |= whole - self.plan.names
        self._shortened = True
        self._note(notes)

    def _leave_out(self, refused: Mapping[str, str]) -> None:
        """What the engine refuses to us it refuses to users, so there is nothing to warm: a prompt
        that is too long after all, an adapter that was unloaded meanwhile. The first bucket stays,
        because without any there is no evidence."""
        names = refused.keys() - {self.plan.buckets[0].name}
        self.plan = self.plan.without(names)
        self._record.left_out |= names
        self._note(f"{refused[name]}; it is left out" for name in sorted(names))

    def _note(self, notes: Iterable[str]) -> None:
        for note in notes:
            log.info("plan: %s", note)
            self._record.note(note)
