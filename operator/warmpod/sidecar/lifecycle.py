"""What the gate should say, as a pure function of what has happened.

`advance` folds events into a Situation, `verdict` reads it. The gate opens for a boot that was
proven warm and has not ended; never for a pod, and never on the absence of bad news."""

from dataclasses import dataclass, replace

from warmpod import reasons
from warmpod.sidecar.boots import Boot

# Seconds that HTTP answers without one token before this is called by its name.
NO_TOKEN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Policy:
    stall_seconds: float
    max_rounds: int
    open_on_failure: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a boot counts as warm. Times in seconds."""

    rounds: int
    first_token: float
    steady: float

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, first token {self.first_token * 1000:.0f} ms, "
            f"steady {self.steady * 1000:.0f} ms"
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A fatal line that the launcher knew in the engine's log."""

    reason: str
    line: str


# --- events; `at` is in seconds of a monotonic clock ---


@dataclass(frozen=True, slots=True)
class LauncherStarted:
    pass


@dataclass(frozen=True, slots=True)
class StoppingSeen:
    stopping: bool


@dataclass(frozen=True, slots=True)
class GaveUp:
    pass


@dataclass(frozen=True, slots=True)
class BootStarted:
    boot: Boot
    resuming: bool = False


@dataclass(frozen=True, slots=True)
class BootEvent:
    boot_id: str


@dataclass(frozen=True, slots=True)
class FailureSeen(BootEvent):
    failure: Failure


@dataclass(frozen=True, slots=True)
class LockReleased(BootEvent):
    pass


@dataclass(frozen=True, slots=True)
class BootEnded(BootEvent):
    how: str


@dataclass(frozen=True, slots=True)
class HttpAnswered(BootEvent):
    at: float


@dataclass(frozen=True, slots=True)
class TokenSeen(BootEvent):
    at: float


@dataclass(frozen=True, slots=True)
class Learned(BootEvent):
    """It is known what the boot serves."""


@dataclass(frozen=True, slots=True)
class RequestsFailed(BootEvent):
    """A round, or what comes before it, failed. `answered`: the engine said no, not nothing."""

    problem: str
    answered: bool


@dataclass(frozen=True, slots=True)
class RoundPlayed(BootEvent):
    """Every request of a round succeeded."""

    unsettled: str


@dataclass(frozen=True, slots=True)
class Settled(BootEvent):
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NotResumed(BootEvent):
    pass


@dataclass(frozen=True, slots=True)
class BudgetSpent(BootEvent):
    """Warm-up has failed by its budget, and the policy is to open all the same."""

    because: str


@dataclass(frozen=True, slots=True)
class CanaryDied(BootEvent):
    problem: str


@dataclass(frozen=True, slots=True)
class CanaryLives(BootEvent):
    pass


OfBoot = (
    FailureSeen
    | LockReleased
    | BootEnded
    | HttpAnswered
    | TokenSeen
    | Learned
    | RequestsFailed
    | RoundPlayed
    | Settled
    | NotResumed
    | BudgetSpent
    | CanaryDied
    | CanaryLives
)
Event = LauncherStarted | StoppingSeen | GaveUp | BootStarted | OfBoot


@dataclass(frozen=True, slots=True)
class BootState:
    boot: Boot
    # Why the boot before never became warm; empty when it had been, or there was none.
    before: str = ""
    before_reason: str = ""
    resuming: bool = False
    http_at: float | None = None
    progress_at: float = 0.0
    token_seen: bool = False
    rounds: int = 0
    unsettled: str = ""
    problem: str = ""
    answered: bool = False
    evidence: Evidence | None = None
    unproven: str = ""
    canary_problem: str = ""
    failure: Failure | None = None
    ended: bool = False
    how_ended: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    launcher_seen: bool = False
    stopping: bool = False
    gave_up: bool = False
    current: BootState | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    open: bool
    reason: str
    message: str


def advance(situation: Situation, event: Event) -> Situation:
    match event:
        case LauncherStarted():
            return replace(situation, launcher_seen=True, gave_up=False)
        case StoppingSeen(stopping):
            return replace(situation, stopping=stopping)
        case GaveUp():
            return replace(situation, gave_up=True)
        case BootStarted(boot, resuming):
            fresh = _fresh_state(situation.current, boot, resuming)
            return replace(situation, launcher_seen=True, gave_up=False, current=fresh)
        case _:
            current = situation.current
            if current is None or current.boot.id != event.boot_id:
                return situation  # news about a boot that is over
            return replace(situation, current=_advance_boot(current, event))


def _fresh_state(earlier: BootState | None, boot: Boot, resuming: bool) -> BootState:
    if earlier is None or earlier.evidence is not None:
        return BootState(boot, resuming=resuming)
    closing = _ended_verdict(earlier)
    return BootState(boot, closing.message, closing.reason, resuming)


def _advance_boot(state: BootState, event: OfBoot) -> BootState:
    match event:
        case LockReleased():
            return replace(state, ended=True)
        case BootEnded(how=how):
            return replace(state, ended=True, how_ended=how)
        case FailureSeen(failure=failure):
            return replace(state, failure=failure)
        case CanaryDied(problem=problem):
            return replace(state, canary_problem=problem)
        case CanaryLives():
            return replace(state, canary_problem="")
        case _:
            return _advance_warmup(state, event)


def _advance_warmup(
    state: BootState,
    event: HttpAnswered
    | TokenSeen
    | Learned
    | RequestsFailed
    | RoundPlayed
    | Settled
    | NotResumed
    | BudgetSpent,
) -> BootState:
    match event:
        case HttpAnswered(at=at):
            return replace(state, http_at=at, progress_at=at)
        case TokenSeen(at=at):
            return replace(state, token_seen=True, progress_at=at)
        case Learned():
            return replace(state, problem="")
        case RequestsFailed(problem=problem, answered=answered):
            return replace(state, problem=problem, answered=answered, rounds=state.rounds + 1)
        case RoundPlayed(unsettled=unsettled):
            return replace(state, problem="", unsettled=unsettled, rounds=state.rounds + 1)
        case Settled(evidence=evidence):
            return replace(state, evidence=evidence, problem="", resuming=False)
        case NotResumed():
            return replace(state, resuming=False)
        case BudgetSpent(because=because):
            return replace(state, unproven=because)


def budget_spent(situation: Situation, now: float, policy: Policy) -> bool:
    """Whether warm-up of the current boot has failed, by stall or by number of rounds."""
    state = situation.current
    if state is None or state.ended or state.evidence is not None or state.http_at is None:
        return False
    if state.unproven:
        return False
    return _stalled(state, now, policy) or state.rounds >= policy.max_rounds


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
        return _gave_up_verdict(state)
    if state.ended:
        return _ended_verdict(state)
    if state.evidence is not None:
        return _warm_verdict(state, state.evidence)
    if state.resuming:
        return None
    return _cold_verdict(state, now, policy)


def _gave_up_verdict(state: BootState) -> Verdict:
    ended = _ended_verdict(state)
    reason = ended.reason if state.failure else reasons.ENGINE_GAVE_UP
    return Verdict(False, reason, f"gave up: {ended.message}")


def _ended_verdict(state: BootState) -> Verdict:
    message = f"boot {state.boot.id} (number {state.boot.number}) ended"
    if state.how_ended:
        message += f": {state.how_ended}"
    if state.failure is None:
        return Verdict(False, reasons.ENGINE_DIED, message)
    return Verdict(False, state.failure.reason, f"{state.failure.line} ({message})")


def _warm_verdict(state: BootState, evidence: Evidence) -> Verdict:
    if state.canary_problem:
        return Verdict(False, reasons.CANARY_FAILED, state.canary_problem)
    return Verdict(True, reasons.WARM, f"boot {state.boot.id} warm: {evidence}")


def _cold_verdict(state: BootState, now: float, policy: Policy) -> Verdict:
    if state.unproven:
        return Verdict(True, reasons.OPENED_UNPROVEN, f"boot {state.boot.id}: {state.unproven}")
    if state.failure is not None:
        return Verdict(False, state.failure.reason, state.failure.line)
    if state.http_at is None:
        return _starting_verdict(state)
    return _warming_verdict(state, now, policy)


def _starting_verdict(state: BootState) -> Verdict:
    name = f"boot {state.boot.id} (number {state.boot.number})"
    if state.before:
        # A crash loop keeps its reason until a boot gets further than the one before.
        return Verdict(False, state.before_reason, f"{state.before}; {name} is starting")
    return Verdict(False, reasons.ENGINE_STARTING, f"{name} does not answer yet")


def _warming_verdict(state: BootState, now: float, policy: Policy) -> Verdict:
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
    elif state.rounds >= policy.max_rounds:
        message = f"not settled after {policy.max_rounds} rounds (spec.warmup.maxRounds)"
        return Verdict(False, reasons.WARMUP_FAILED, _with(message, state.unsettled))
    round_number = f"boot {state.boot.id}: round {state.rounds + 1}"
    return Verdict(False, reasons.WARMING_UP, _with(round_number, state.unsettled))


def _stalled(state: BootState, now: float, policy: Policy) -> bool:
    return state.http_at is not None and now - state.progress_at >= policy.stall_seconds


def _with(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message
