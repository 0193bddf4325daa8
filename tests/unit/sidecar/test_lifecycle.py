from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmpod.sidecar.boots import Boot
from warmpod.sidecar.lifecycle import (
    AnswersChecked,
    BootEnded,
    BootStarted,
    BudgetSpent,
    CanaryDied,
    CanaryLives,
    CanaryTolerated,
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
    Policy,
    Progressed,
    RequestsFailed,
    RestartAsked,
    RoundPlayed,
    Settled,
    Situation,
    SleepAsked,
    SleepFailed,
    Slept,
    StoppingSeen,
    TokenSeen,
    Verdict,
    WakeAsked,
    WakeFailed,
    Woke,
    advance,
    failed,
    may_open_unproven,
    may_restart,
    verdict,
)

POLICY = Policy(stall_seconds=60, max_rounds=3, on_failure="Block", max_restarts=2)
EVIDENCE = Evidence(4, 0.084, 0.022)


def boot(name: str, number: int = 1, *, reference: bool = False) -> Boot:
    return Boot(name, number, Path(f"boot-{name}.lock"), 0.0, reference)


REFERENCE = boot("r", reference=True)
A, B = boot("a"), boot("b", 2)
STARTED: list[Event] = [LauncherStarted(), BootStarted(A)]
UP: list[Event] = [*STARTED, HttpAnswered("a", 100.0)]
TALKING: list[Event] = [*UP, TokenSeen("a", 101.0)]
WARM: list[Event] = [*TALKING, Settled("a", EVIDENCE)]
ASLEEP: list[Event] = [*WARM, Slept("a")]
OOM = Failure("OutOfMemory", "CUDA out of memory")


def after(events: list[Event]) -> Situation:
    situation = Situation()
    for event in events:
        situation = advance(situation, event)
    return situation


@pytest.mark.parametrize(
    ("events", "now", "reason", "part"),
    [
        ([], 0, "SidecarStarting", ""),
        ([LauncherStarted()], 0, "EngineStarting", "no engine boot yet"),
        (STARTED, 0, "EngineStarting", "does not answer"),
        (UP, 109, "WarmingUp", "round 1"),
        (UP, 110, "NoTokenYet", "no token for 10 s"),
        ([*UP, RequestsFailed("a", "time-out", False)], 110, "NoTokenYet", "time-out"),
        (UP, 160, "WarmupStalled", "60 s"),
        (TALKING, 160, "WarmingUp", "round 1"),
        (TALKING, 161, "WarmupStalled", "60 s"),
        ([*TALKING, RoundPlayed("a", "x fell")], 102, "WarmingUp", "round 2: x fell"),
        ([*UP, RequestsFailed("a", "500 oops", True)], 102, "WarmupFailed", "500 oops"),
        ([*UP, RequestsFailed("a", "500", True), Learned("a")], 102, "WarmingUp", ""),
        ([*TALKING, *[RoundPlayed("a", "x")] * 3], 102, "WarmupFailed", "maxRounds"),
        ([*TALKING, *[RoundPlayed("a", "x")] * 2, RoundPlayed("a", "")], 102, "WarmingUp", ""),
        (WARM, 9999, "Warm", "4 rounds, first token 84 ms, steady 22 ms"),
        ([*WARM, CanaryDied("a", "time-out", 102)], 102, "CanaryFailed", "time-out"),
        ([*WARM, CanaryDied("a", "x", 102), CanaryLives("a")], 102, "Warm", ""),
        ([*WARM, StoppingSeen(True)], 102, "Stopping", ""),
        ([*WARM, StoppingSeen(True), StoppingSeen(False)], 102, "Warm", ""),
        ([*WARM, LockReleased("a")], 102, "EngineDied", "boot a (number 1) ended"),
        ([*WARM, BootEnded("a", "exit code 1")], 102, "EngineDied", "exit code 1"),
        ([*WARM, LockReleased("a"), BootStarted(B)], 102, "EngineStarting", "boot b"),
        ([*WARM, FailureSeen("a", OOM)], 102, "Warm", ""),
        ([*STARTED, FailureSeen("a", OOM)], 1, "OutOfMemory", "CUDA"),
        ([*STARTED, FailureSeen("a", OOM), LockReleased("a")], 1, "OutOfMemory", "ended"),
        (
            [*STARTED, BootEnded("a", "exit code 1"), BootStarted(B)],
            1,
            "EngineDied",
            "exit code 1; boot b (number 2) is starting",
        ),
        ([*STARTED, BootEnded("a", "exit code 1"), GaveUp()], 1, "EngineGaveUp", "exit code 1"),
        (
            [*STARTED, FailureSeen("a", OOM), BootEnded("a", "x"), GaveUp()],
            1,
            "OutOfMemory",
            "gave up",
        ),
        (
            [*STARTED, BootEnded("a", "x"), GaveUp(), LauncherStarted(), BootStarted(B)],
            1,
            "EngineDied",
            "b (number 2) is starting",
        ),
        ([*TALKING, BudgetSpent("a", "WarmupStalled: x")], 102, "OpenedUnproven", "Stalled: x"),
        ([*TALKING, BudgetSpent("a", "x"), Settled("a", EVIDENCE)], 102, "Warm", ""),
        ([*TALKING, BudgetSpent("a", "x"), LockReleased("a")], 102, "EngineDied", ""),
        ([*STARTED, Settled("other", EVIDENCE)], 1, "EngineStarting", ""),
        ([*TALKING, Progressed("a", 150.0)], 180, "WarmingUp", ""),
        ([*TALKING, Progressed("a", 150.0)], 210, "WarmupStalled", ""),
        ([*TALKING, GoldenDiffered("a", "golden x: no")], 102, "GoldenMismatch", "golden x"),
        ([*TALKING, GoldenDiffered("a", "x"), Settled("a", EVIDENCE)], 102, "Warm", ""),
        ([*TALKING, Slept("a")], 999, "Asleep", ""),
        ([*TALKING, Slept("a"), Woke("a", 990.0)], 999, "WarmingUp", ""),
        ([*WARM, Slept("a")], 999, "Asleep", "sleeps"),
        ([*WARM, Slept("a"), CanaryDied("a", "x", 102)], 999, "Asleep", ""),
        ([*WARM, Slept("a"), Woke("a", 990.0)], 999, "Waking", ""),
        ([*WARM, Slept("a"), Woke("a", 990.0), AnswersChecked("a", "")], 999, "Warm", ""),
        (
            [*WARM, Slept("a"), Woke("a", 1.0), AnswersChecked("a", "was x, is y")],
            999,
            "AnswerChanged",
            "was x, is y",
        ),
        ([*WARM, SleepAsked("a")], 999, "FallingAsleep", "idle"),
        ([*WARM, SleepAsked("a"), SleepFailed("a")], 999, "Warm", ""),
        ([*WARM, SleepAsked("a"), Slept("a")], 999, "Asleep", ""),
        ([*WARM, SleepAsked("a"), LockReleased("a")], 999, "EngineDied", ""),
        ([*WARM, MemoryHeld("a", "only 6 GiB"), Slept("a")], 999, "Asleep", "only 6 GiB"),
        ([*WARM, Slept("a"), MemoryHeld("a", "only 6 GiB")], 999, "Asleep", "only 6 GiB"),
        ([*ASLEEP, WakeAsked("a", 900.0)], 959, "Waking", "is being woken up"),
        ([*ASLEEP, WakeAsked("a", 900.0)], 960, "WakeFailed", "no progress for 60 s"),
        ([*ASLEEP, WakeAsked("a", 900.0), WakeFailed("a", "500")], 901, "WakeFailed", "500; del"),
        ([*ASLEEP, WakeFailed("a", "500"), WakeAsked("a", 950.0)], 951, "Waking", ""),
        ([*ASLEEP, WakeFailed("a", "500"), Woke("a", 950.0)], 951, "Waking", "answers"),
        ([*ASLEEP, WakeFailed("a", "500"), Slept("a")], 951, "Asleep", ""),
        ([*ASLEEP, Woke("a", 900.0)], 960, "WakeFailed", "no progress"),
        ([*ASLEEP, Woke("a", 900.0), TokenSeen("a", 950.0)], 960, "Waking", ""),
        ([*ASLEEP, Woke("a", 900.0), AnswersChecked("a", "")], 9999, "Warm", ""),
        ([*WARM, SleepAsked("a"), Woke("a", 900.0), SleepFailed("a")], 901, "Waking", ""),
        ([*WARM, CanaryTolerated("a", "canary: late")], 102, "Warm", "no other pod serves"),
        ([*WARM, CanaryTolerated("a", "x"), CanaryDied("a", "y", 1.0)], 102, "CanaryFailed", "y"),
        ([*TALKING, RestartAsked("a", "WarmupStalled: x")], 102, "EngineRestarting", "Stalled"),
        (
            [*TALKING, RestartAsked("a", "x"), BootEnded("a", "ended"), BootStarted(B)],
            102,
            "EngineRestarting",
            "1 of 2 restarts",
        ),
        ([BootStarted(REFERENCE), HttpAnswered("r", 1.0)], 999, "Comparing", ""),
        ([BootStarted(REFERENCE), Settled("r", EVIDENCE)], 999, "Comparing", ""),
        ([BootStarted(REFERENCE), BootEnded("r", "x")], 999, "Comparing", ""),
        (
            [BootStarted(REFERENCE), BootEnded("r", "x"), BootStarted(A)],
            1,
            "EngineStarting",
            "boot a (number 1) does not answer yet",
        ),
    ],
)
def test_verdicts(events: list[Event], now: float, reason: str, part: str) -> None:
    found = verdict(after(events), now, POLICY)
    assert found is not None
    assert (found.reason, found.open) == (reason, reason in ("Warm", "OpenedUnproven"))
    assert part in found.message


def test_resumed_boot_says_nothing_before_its_canary() -> None:
    resumed: list[Event] = [BootStarted(A, resuming=True), HttpAnswered("a", 1.0)]
    assert verdict(after(resumed), 2, POLICY) is None
    assert verdict(after([*resumed, LockReleased("a")]), 2, POLICY) is not None
    opened = verdict(after([*resumed, Settled("a", EVIDENCE)]), 2, POLICY)
    assert opened is not None
    assert opened.open
    failed = verdict(after([*resumed, NotResumed("a")]), 2, POLICY)
    assert failed == Verdict(False, "WarmingUp", "boot a: round 1")


RESUMED: list[Event] = [BootStarted(A, resuming=True), Settled("a", EVIDENCE)]
SLEPT: list[Event] = [*WARM, Slept("a"), Woke("a", 102.0)]


@pytest.mark.parametrize(
    ("events", "now", "has_failed"),
    [
        (STARTED, 999, False),
        (UP, 159, False),
        (UP, 160, True),
        ([*TALKING, *[RoundPlayed("a", "x")] * 3], 102, True),
        (WARM, 999, False),
        ([*UP, LockReleased("a")], 999, False),
        ([*UP, BudgetSpent("a", "x")], 999, False),
        ([*UP, RestartAsked("a", "x")], 999, False),
        ([*UP, Slept("a")], 999, False),
        ([*TALKING, GoldenDiffered("a", "x")], 102, True),
        ([*SLEPT, AnswersChecked("a", "")], 103, False),
        (ASLEEP, 9999, False),
        ([*ASLEEP, WakeAsked("a", 900.0)], 959, False),
        ([*ASLEEP, WakeAsked("a", 900.0)], 960, True),
        ([*ASLEEP, WakeFailed("a", "500")], 103, True),
        ([*SLEPT], 162, True),
        ([*TALKING, Slept("a"), WakeFailed("a", "500")], 999, False),
        ([*SLEPT, AnswersChecked("a", "differs")], 103, True),
        ([*WARM, CanaryDied("a", "x", 102)], 161, False),
        ([*WARM, CanaryDied("a", "x", 102), CanaryDied("a", "x", 150)], 162, True),
        ([*WARM, CanaryDied("a", "x", 102), CanaryLives("a")], 999, False),
        ([*WARM, CanaryTolerated("a", "x")], 999, False),
        ([*RESUMED, CanaryDied("a", "x", 102)], 162, True),
        ([BootStarted(REFERENCE), HttpAnswered("r", 1.0)], 999, False),
    ],
)
def test_when_warm_up_has_failed(events: list[Event], now: float, has_failed: bool) -> None:
    assert failed(after(events), now, POLICY) is has_failed


def test_wrong_answers_are_never_let_in_and_slow_ones_may_be() -> None:
    assert may_open_unproven(after([*TALKING, *[RoundPlayed("a", "x")] * 3]))
    assert not may_open_unproven(after([*TALKING, GoldenDiffered("a", "x")]))
    assert not may_open_unproven(after([*SLEPT, AnswersChecked("a", "differs")]))


def test_a_boot_that_settles_in_the_last_round_has_not_failed() -> None:
    rounds = [RoundPlayed("a", "x"), RoundPlayed("a", "x"), RoundPlayed("a", "")]
    assert not failed(after([*TALKING, *rounds]), 102, POLICY)
    assert failed(after([*TALKING, *rounds[:2], RoundPlayed("a", "x")]), 102, POLICY)


def test_restarts_are_bounded_and_a_warm_boot_starts_the_count_anew() -> None:
    events: list[Event] = []
    for name in ("a", "b"):
        assert may_restart(after(events), POLICY)
        events += [BootStarted(boot(name)), HttpAnswered(name, 1.0), RestartAsked(name, "x")]
    assert not may_restart(after(events), POLICY)
    events += [BootStarted(boot("c")), Settled("c", EVIDENCE)]
    assert may_restart(after(events), POLICY)


def test_restarts_that_a_sidecar_before_this_one_asked_for_count() -> None:
    events: list[Event] = []
    for name in ("a", "b"):
        assert may_restart(after(events), POLICY)
        events += [BootStarted(boot(name)), BootEnded(name, "signal 15", asked=True)]
    assert not may_restart(after(events), POLICY)
    one = [BootStarted(A), RestartAsked("a", "x"), BootEnded("a", "signal 15", asked=True)]
    assert after(one).restarts == 1


def test_restarts_before_a_boot_that_was_warm_do_not_count() -> None:
    events: list[Event] = []
    for name in ("a", "b"):
        events += [BootStarted(boot(name)), BootEnded(name, "x", asked=True)]
    assert not may_restart(after(events), POLICY)
    assert may_restart(after([*events, BootStarted(boot("c"), resuming=True)]), POLICY)


def test_boot_that_settles_while_it_is_ended_does_not_start_the_count_anew() -> None:
    events: list[Event] = []
    for name in ("a", "b"):
        events += [BootStarted(boot(name)), HttpAnswered(name, 1.0), RestartAsked(name, "x")]
        events += [Settled(name, EVIDENCE), BootEnded(name, "x", asked=True)]
    assert not may_restart(after(events), POLICY)


BOOTS = {name: boot(name, number) for number, name in enumerate("abc", 1)}
NAMES = st.sampled_from(sorted(BOOTS))
AT = st.floats(0, 1000)
EVENTS = st.one_of(
    st.just(LauncherStarted()),
    st.builds(StoppingSeen, st.booleans()),
    st.just(GaveUp()),
    st.builds(BootStarted, NAMES.map(BOOTS.__getitem__), st.booleans()),
    st.builds(FailureSeen, NAMES, st.just(OOM)),
    st.builds(LockReleased, NAMES),
    st.builds(BootEnded, NAMES, st.just("exit code 1")),
    st.builds(HttpAnswered, NAMES, AT),
    st.builds(TokenSeen, NAMES, AT),
    st.builds(Learned, NAMES),
    st.builds(RequestsFailed, NAMES, st.just("500"), st.booleans()),
    st.builds(RoundPlayed, NAMES, st.just("x")),
    st.builds(Settled, NAMES, st.just(EVIDENCE)),
    st.builds(NotResumed, NAMES),
    st.builds(CanaryDied, NAMES, st.just("x"), AT),
    st.builds(CanaryLives, NAMES),
    st.builds(CanaryTolerated, NAMES, st.just("x")),
    st.builds(Slept, NAMES),
    st.builds(Woke, NAMES, AT),
    st.builds(AnswersChecked, NAMES, st.sampled_from(["", "differs"])),
    st.builds(GoldenDiffered, NAMES, st.just("x")),
    st.builds(RestartAsked, NAMES, st.just("x")),
    st.builds(Progressed, NAMES, AT),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=25), AT)
def test_gate_is_open_only_on_evidence_about_the_living_boot(
    events: list[Event], now: float
) -> None:
    found = verdict(after(events), now, POLICY)
    if found is None or not found.open:
        return
    started = max(i for i, event in enumerate(events) if isinstance(event, BootStarted))
    latest = events[started]
    assert isinstance(latest, BootStarted)
    name = latest.boot.id
    since = events[started:]
    assert Settled(name, EVIDENCE) in since
    assert LockReleased(name) not in since
    assert not any(isinstance(event, BootEnded) and event.boot_id == name for event in since)
    sleeping = [
        isinstance(event, Slept)
        for event in since
        if isinstance(event, Slept | Woke) and event.boot_id == name
    ]
    assert sleeping[-1:] != [True]
    assert RestartAsked(name, "x") not in since
    stopping = [event.stopping for event in events if isinstance(event, StoppingSeen)]
    assert stopping[-1:] != [True]
