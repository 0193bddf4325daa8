"""What can happen to a boot. `at` is in seconds of a monotonic clock."""

from dataclasses import dataclass

from warmpod.sidecar.boots import Boot


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


# --- about the pod ---


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


# --- told by the launcher ---


@dataclass(frozen=True, slots=True)
class FailureSeen(BootEvent):
    failure: Failure


@dataclass(frozen=True, slots=True)
class LockReleased(BootEvent):
    pass


@dataclass(frozen=True, slots=True)
class BootEnded(BootEvent):
    """`asked`: by a sidecar, because warm-up had failed."""

    how: str
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Progressed(BootEvent):
    """The engine works without answering: it compiles, or writes compiled code."""

    at: float


# --- told by the warm-up ---


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
    """Every request of a round succeeded. `unsettled`: what keeps latency from having settled;
    empty when it has."""

    unsettled: str


@dataclass(frozen=True, slots=True)
class GoldenDiffered(BootEvent):
    """Latency has settled, but an answer is not what spec.warmup.golden says."""

    problem: str


@dataclass(frozen=True, slots=True)
class Settled(BootEvent):
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NotResumed(BootEvent):
    pass


# --- told by the policy for failures ---


@dataclass(frozen=True, slots=True)
class BudgetSpent(BootEvent):
    """Warm-up has failed by its budget, and the policy is to open all the same."""

    because: str


@dataclass(frozen=True, slots=True)
class RestartAsked(BootEvent):
    """The launcher was asked to end the boot because of this."""

    because: str


# --- told by the watch over a warm boot ---


@dataclass(frozen=True, slots=True)
class CanaryDied(BootEvent):
    problem: str
    at: float


@dataclass(frozen=True, slots=True)
class CanaryTolerated(BootEvent):
    """It failed by time-out alone, on the last pod that serves the model."""

    problem: str


@dataclass(frozen=True, slots=True)
class CanaryLives(BootEvent):
    pass


# --- told of its sleep, whoever asked for it ---


@dataclass(frozen=True, slots=True)
class Slept(BootEvent):
    pass


@dataclass(frozen=True, slots=True)
class Woke(BootEvent):
    at: float


@dataclass(frozen=True, slots=True)
class SleepAsked(BootEvent):
    """It is to sleep as soon as it is idle, so nobody new may come in."""


@dataclass(frozen=True, slots=True)
class SleepFailed(BootEvent):
    """It does not sleep, and is not going to."""


@dataclass(frozen=True, slots=True)
class MemoryHeld(BootEvent):
    """It sleeps, but has given back less memory than it should."""

    problem: str


@dataclass(frozen=True, slots=True)
class WakeAsked(BootEvent):
    at: float


@dataclass(frozen=True, slots=True)
class WakeFailed(BootEvent):
    problem: str


@dataclass(frozen=True, slots=True)
class AnswersChecked(BootEvent):
    """After a wake-up; `problem` is empty when the answers are those from before."""

    problem: str


WarmupEvent = (
    HttpAnswered
    | TokenSeen
    | Progressed
    | Learned
    | RequestsFailed
    | RoundPlayed
    | GoldenDiffered
    | Settled
    | NotResumed
)
PolicyEvent = BudgetSpent | RestartAsked
WatchEvent = CanaryDied | CanaryTolerated | CanaryLives
SleepEvent = (
    SleepAsked | SleepFailed | Slept | MemoryHeld | WakeAsked | WakeFailed | Woke | AnswersChecked
)
EndEvent = FailureSeen | LockReleased | BootEnded
OfBoot = WarmupEvent | PolicyEvent | WatchEvent | SleepEvent | EndEvent
Event = LauncherStarted | StoppingSeen | GaveUp | BootStarted | OfBoot
