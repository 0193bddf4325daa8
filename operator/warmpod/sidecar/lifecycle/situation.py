"""Folds events into what is known of the pod and its present boot. Pure."""

from dataclasses import dataclass, replace

from warmpod import reasons
from warmpod.sidecar.boots import Boot
from warmpod.sidecar.lifecycle.events import (
    AnswersChecked,
    BootEnded,
    BootStarted,
    BudgetSpent,
    CanaryDied,
    CanaryLives,
    CanaryTolerated,
    EndEvent,
    Event,
    Evidence,
    Failure,
    FailureSeen,
    GaveUp,
    GoldenDiffered,
    HttpAnswered,
    LauncherStarted,
    Learned,
    LockReleased,
    MemoryHeld,
    NotResumed,
    OfBoot,
    Progressed,
    RequestsFailed,
    RestartAsked,
    RoundPlayed,
    Settled,
    SleepAsked,
    SleepEvent,
    SleepFailed,
    Slept,
    StoppingSeen,
    TokenSeen,
    WakeAsked,
    WakeFailed,
    WarmupEvent,
    WatchEvent,
    Woke,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a boot is over."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class BootState:
    boot: Boot
    resuming: bool = False
    http_at: float | None = None
    progress_at: float = 0.0
    token_seen: bool = False
    rounds: int = 0
    unsettled: str = ""
    problem: str = ""
    answered: bool = False
    golden_problem: str = ""
    evidence: Evidence | None = None
    unproven: str = ""
    restart_because: str = ""
    canary_problem: str = ""
    canary_failed_at: float | None = None
    tolerated: str = ""
    falling_asleep: bool = False
    asleep: bool = False
    held_memory: str = ""
    # Asked to wake up, and not awake yet.
    waking: bool = False
    wake_problem: str = ""
    checking_answers: bool = False
    changed_answer: str = ""
    failure: Failure | None = None
    ended: bool = False
    how_ended: str = ""

    @property
    def name(self) -> str:
        return f"boot {self.boot.id} (number {self.boot.number})"


@dataclass(frozen=True, slots=True)
class Situation:
    launcher_seen: bool = False
    stopping: bool = False
    gave_up: bool = False
    # Boots in a row that were ended because their warm-up failed.
    restarts: int = 0
    # How the boot before ended, if it never became warm.
    earlier: Ending | None = None
    current: BootState | None = None


def advance(situation: Situation, event: Event) -> Situation:
    match event:
        case LauncherStarted():
            return replace(situation, launcher_seen=True, gave_up=False)
        case StoppingSeen(stopping):
            return replace(situation, stopping=stopping)
        case GaveUp():
            return replace(situation, gave_up=True)
        case BootStarted():
            return _next_boot(situation, event)
        case _:
            current = situation.current
            if current is None or current.boot.id != event.boot_id:
                return situation  # news about a boot that is over
            restarts = _restarts(situation.restarts, current, event)
            return replace(situation, current=_advance_boot(current, event), restarts=restarts)


def _next_boot(situation: Situation, event: BootStarted) -> Situation:
    before = situation.current
    never_warm = before is not None and before.evidence is None and not before.boot.reference
    earlier = ending_of(before) if before is not None and never_warm else None
    fresh = BootState(event.boot, resuming=event.resuming)
    restarts = 0 if event.resuming else situation.restarts  # one that was warm ends the row
    return replace(
        situation,
        launcher_seen=True,
        gave_up=False,
        restarts=restarts,
        earlier=earlier,
        current=fresh,
    )


def _restarts(so_far: int, current: BootState, event: OfBoot) -> int:
    match event:
        # By this sidecar, or by one before it, of which only the launcher tells.
        case RestartAsked() | BootEnded(asked=True) if not current.restart_because:
            return so_far + 1
        case Settled() if not current.restart_because:
            return 0
        case _:
            return so_far


def ending_of(state: BootState) -> Ending:
    message = f"{state.name} ended"
    if state.how_ended:
        message += f": {state.how_ended}"
    if state.boot.reference:
        return Ending(reasons.COMPARING, message)
    if state.failure is not None:
        return Ending(state.failure.reason, f"{state.failure.line} ({message})")
    if state.restart_because:
        return Ending(reasons.ENGINE_RESTARTING, f"{state.restart_because} ({message})")
    return Ending(reasons.ENGINE_DIED, message)


def _advance_boot(state: BootState, event: OfBoot) -> BootState:
    match event:
        case FailureSeen() | LockReleased() | BootEnded():
            return _advance_end(state, event)
        case BudgetSpent(because=because):
            return replace(state, unproven=because)
        case RestartAsked(because=because):
            return replace(state, restart_because=because)
        case CanaryDied() | CanaryTolerated() | CanaryLives():
            return _advance_watch(state, event)
        case SleepAsked() | SleepFailed() | Slept() | MemoryHeld():
            return _advance_sleep(state, event)
        case WakeAsked() | WakeFailed() | Woke() | AnswersChecked():
            return _advance_sleep(state, event)
        case _:
            return _advance_warmup(state, event)


def _advance_end(state: BootState, event: EndEvent) -> BootState:
    match event:
        case LockReleased():
            return replace(state, ended=True)
        case BootEnded(how=how):
            return replace(state, ended=True, how_ended=how)
        case FailureSeen(failure=failure):
            return replace(state, failure=failure)


def _advance_warmup(state: BootState, event: WarmupEvent) -> BootState:
    match event:
        case HttpAnswered(at=at):
            return replace(state, http_at=at, progress_at=at)
        case TokenSeen(at=at):
            return replace(state, token_seen=True, progress_at=at)
        case Progressed(at=at):
            return replace(state, progress_at=at)
        case Learned():
            return replace(state, problem="")
        case RequestsFailed(problem=problem, answered=answered):
            return replace(state, problem=problem, answered=answered, rounds=state.rounds + 1)
        case RoundPlayed(unsettled=unsettled):
            return replace(state, problem="", unsettled=unsettled, rounds=state.rounds + 1)
        case GoldenDiffered(problem=problem):
            return replace(state, golden_problem=problem)
        case Settled(evidence=evidence):
            return replace(state, evidence=evidence, problem="", golden_problem="", resuming=False)
        case NotResumed():
            return replace(state, resuming=False)


def _advance_watch(state: BootState, event: WatchEvent) -> BootState:
    match event:
        case CanaryDied(problem=problem, at=at):
            since = at if state.canary_failed_at is None else state.canary_failed_at
            return replace(state, canary_problem=problem, canary_failed_at=since, tolerated="")
        case CanaryTolerated(problem=problem):
            return replace(state, canary_problem="", canary_failed_at=None, tolerated=problem)
        case CanaryLives():
            return replace(state, canary_problem="", canary_failed_at=None, tolerated="")


def _advance_sleep(state: BootState, event: SleepEvent) -> BootState:
    match event:
        case SleepAsked():
            return replace(state, falling_asleep=True)
        case SleepFailed():
            return replace(state, falling_asleep=False)
        case Slept():
            return replace(
                state,
                asleep=True,
                falling_asleep=False,
                waking=False,
                wake_problem="",
            )
        case MemoryHeld(problem=problem):
            return replace(state, held_memory=problem)
        case WakeAsked(at=at):
            return replace(state, waking=True, wake_problem="", progress_at=at)
        case WakeFailed(problem=problem):
            return replace(state, waking=False, wake_problem=problem)
        case Woke(at=at):
            return replace(
                state,
                asleep=False,
                waking=False,
                wake_problem="",
                held_memory="",
                checking_answers=True,
                progress_at=at,
            )
        case AnswersChecked(problem=problem):
            return replace(state, checking_answers=False, changed_answer=problem)
