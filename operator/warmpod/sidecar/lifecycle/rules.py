"""What the gate should say. Pure.

It opens for a boot that was proven warm and has not ended; never for a pod, and never on the
absence of bad news."""

from dataclasses import dataclass
from typing import Literal

from warmpod import reasons
from warmpod.sidecar.lifecycle.events import Evidence
from warmpod.sidecar.lifecycle.situation import BootState, Situation, ending_of

# Seconds that HTTP answers without one token before this is called by its name.
NO_TOKEN_SECONDS = 10.0


# Seconds without any progress after which a wake-up counts as failed. A large model's weights come
# back from host memory within 6 s (https://blog.vllm.ai/2025/10/26/sleep-mode.html).
WAKE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Policy:
    """From spec.warmup."""

    stall_seconds: float
    max_rounds: int
    on_failure: Literal["Block", "Open", "Restart"]
    max_restarts: int


@dataclass(frozen=True, slots=True)
class Verdict:
    open: bool
    reason: str
    message: str


def verdict(situation: Situation, now: float, policy: Policy) -> Verdict | None:
    """None: say nothing yet, a restarted sidecar is still looking at a boot that was warm."""
    state = situation.current
    if situation.stopping:
        return Verdict(False, reasons.STOPPING, "the pod is being stopped")
    if state is None:
        if situation.launcher_seen:
            return Verdict(False, reasons.ENGINE_STARTING, "no engine boot yet")
        return Verdict(False, reasons.SIDECAR_STARTING, "waiting for the launcher")
    if situation.gave_up:
        return _gave_up(state)
    if state.ended or state.restart_because:
        return _ended(state)
    if state.boot.reference:
        return Verdict(False, reasons.COMPARING, f"{state.name} runs with spec.warmup.compare")
    if state.asleep:
        return _asleep(state, now)
    if state.evidence is not None:
        return _warm(state, state.evidence, now)
    if state.resuming:
        return None
    return _with_restarts(_cold(situation, state, now, policy), situation, policy)


def failed(situation: Situation, now: float, policy: Policy) -> bool:
    """Whether what `onFailure` speaks of has come: warm-up of the current boot has failed, by
    stall, by number of rounds or by its answers, or a warm boot has stopped to answer."""
    state = situation.current
    if state is None or state.ended or state.boot.reference:
        return False
    if state.unproven or state.restart_because:
        return False
    if state.evidence is not None:
        return _stopped_to_answer(state, now, policy)
    if state.http_at is None or state.asleep:
        return False
    return _stalled(state, now, policy) or _rounds_spent(state, policy) or _wrong(state)


def may_open_unproven(situation: Situation) -> bool:
    """Slow may be let in, wrong may not."""
    state = situation.current
    return state is not None and state.evidence is None and not _wrong(state)


def may_restart(situation: Situation, policy: Policy) -> bool:
    return situation.restarts < policy.max_restarts


def _gave_up(state: BootState) -> Verdict:
    ending = ending_of(state)
    reason = ending.reason if state.failure else reasons.ENGINE_GAVE_UP
    return Verdict(False, reason, f"gave up: {ending.message}")


def _ended(state: BootState) -> Verdict:
    ending = ending_of(state)
    return Verdict(False, ending.reason, ending.message)


def _asleep(state: BootState, now: float) -> Verdict:
    if _wake_failed(state, now):
        return _not_awake(state)
    if state.waking:
        return Verdict(False, reasons.WAKING, f"boot {state.boot.id} is being woken up")
    message = f"boot {state.boot.id} sleeps or is paused"
    return Verdict(False, reasons.ASLEEP, _with(message, state.held_memory))


def _not_awake(state: BootState) -> Verdict:
    """The remedy stands in the message, because most see nothing but that."""
    why = state.wake_problem or f"no progress for {WAKE_SECONDS:.0f} s"
    message = f"boot {state.boot.id} did not wake up: {why}; delete the pod to replace it"
    return Verdict(False, reasons.WAKE_FAILED, message)


def _wake_failed(state: BootState, now: float) -> bool:
    if state.wake_problem:
        return True
    return (state.waking or state.checking_answers) and now - state.progress_at >= WAKE_SECONDS


def _warm(state: BootState, evidence: Evidence, now: float) -> Verdict:
    if state.falling_asleep:
        return Verdict(False, reasons.FALLING_ASLEEP, f"boot {state.boot.id} is to be idle first")
    if _wake_failed(state, now):
        return _not_awake(state)
    if state.checking_answers:
        return Verdict(False, reasons.WAKING, f"boot {state.boot.id}: its answers are checked")
    if state.changed_answer:
        return Verdict(False, reasons.ANSWER_CHANGED, state.changed_answer)
    if state.canary_problem:
        return Verdict(False, reasons.CANARY_FAILED, state.canary_problem)
    message = f"boot {state.boot.id} warm: {evidence}"
    if state.tolerated:
        message += f"; {state.tolerated}, but no other pod serves the model"
    return Verdict(True, reasons.WARM, message)


def _with_restarts(verdict: Verdict, situation: Situation, policy: Policy) -> Verdict:
    if not situation.restarts or verdict.open:
        return verdict
    done = f"{situation.restarts} of {policy.max_restarts} restarts"
    return Verdict(False, verdict.reason, f"{verdict.message} ({done})")


def _cold(situation: Situation, state: BootState, now: float, policy: Policy) -> Verdict:
    if state.unproven:
        return Verdict(True, reasons.OPENED_UNPROVEN, f"boot {state.boot.id}: {state.unproven}")
    if state.failure is not None:
        return Verdict(False, state.failure.reason, state.failure.line)
    if state.http_at is None:
        return _starting(situation, state)
    if state.golden_problem:
        return Verdict(False, reasons.GOLDEN_MISMATCH, state.golden_problem)
    return _warming(state, now, policy)


def _starting(situation: Situation, state: BootState) -> Verdict:
    earlier = situation.earlier
    if earlier is not None:
        # A crash loop keeps its reason until a boot gets further than the one before.
        return Verdict(False, earlier.reason, f"{earlier.message}; {state.name} is starting")
    return Verdict(False, reasons.ENGINE_STARTING, f"{state.name} does not answer yet")


def _warming(state: BootState, now: float, policy: Policy) -> Verdict:
    waited = f"boot {state.boot.id} answers HTTP"
    if state.problem and (state.answered or state.token_seen):
        return Verdict(False, reasons.WARMUP_FAILED, state.problem)
    if _stalled(state, now, policy):
        message = f"{waited}, but no request made progress for {policy.stall_seconds:.0f} s"
        return Verdict(False, reasons.WARMUP_STALLED, _with(message, state.problem))
    if not state.token_seen and state.http_at is not None:
        if now - state.http_at >= NO_TOKEN_SECONDS:
            message = f"{waited}, but gave no token for {NO_TOKEN_SECONDS:.0f} s"
            return Verdict(False, reasons.NO_TOKEN_YET, _with(message, state.problem))
    elif _rounds_spent(state, policy):
        message = f"not settled after {policy.max_rounds} rounds (spec.warmup.maxRounds)"
        return Verdict(False, reasons.WARMUP_FAILED, _with(message, state.unsettled))
    round_number = f"boot {state.boot.id}: round {state.rounds + 1}"
    return Verdict(False, reasons.WARMING_UP, _with(round_number, state.unsettled))


def _stalled(state: BootState, now: float, policy: Policy) -> bool:
    return state.http_at is not None and now - state.progress_at >= policy.stall_seconds


def _rounds_spent(state: BootState, policy: Policy) -> bool:
    """Not with a last round that settled: answers are checked before the boot counts as warm."""
    return state.rounds >= policy.max_rounds and bool(state.unsettled or state.problem)


def _wrong(state: BootState) -> bool:
    return bool(state.golden_problem)


def _stopped_to_answer(state: BootState, now: float, policy: Policy) -> bool:
    """Of a boot that was proven warm. One that only sleeps is well."""
    if _wake_failed(state, now):
        return True
    return not state.asleep and (bool(state.changed_answer) or _canary_dead(state, now, policy))


def _canary_dead(state: BootState, now: float, policy: Policy) -> bool:
    since = state.canary_failed_at
    return since is not None and now - since >= policy.stall_seconds


def _with(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message
