from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmpod.sidecar.boots import Boot
from warmpod.sidecar.lifecycle import (
    BootEnded,
    BootStarted,
    BudgetSpent,
    CanaryDied,
    CanaryLives,
    Event,
    Evidence,
    Failure,
    FailureSeen,
    GaveUp,
    HttpAnswered,
    LauncherStarted,
    Learned,
    LockReleased,
    NotResumed,
    Policy,
    RequestsFailed,
    RoundPlayed,
    Settled,
    Situation,
    StoppingSeen,
    TokenSeen,
    Verdict,
    advance,
    budget_spent,
    verdict,
)

POLICY = Policy(stall_seconds=60, max_rounds=3, open_on_failure=False)
EVIDENCE = Evidence(4, 0.084, 0.022)


def boot(name: str, number: int = 1) -> Boot:
    return Boot(name, number, Path(f"boot-{name}.lock"), 0.0)


A, B = boot("a"), boot("b", 2)
STARTED: list[Event] = [LauncherStarted(), BootStarted(A)]
UP: list[Event] = [*STARTED, HttpAnswered("a", 100.0)]
TALKING: list[Event] = [*UP, TokenSeen("a", 101.0)]
WARM: list[Event] = [*TALKING, Settled("a", EVIDENCE)]
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
        (WARM, 9999, "Warm", "4 rounds, first token 84 ms, steady 22 ms"),
        ([*WARM, CanaryDied("a", "time-out")], 102, "CanaryFailed", "time-out"),
        ([*WARM, CanaryDied("a", "x"), CanaryLives("a")], 102, "Warm", ""),
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


@pytest.mark.parametrize(
    ("events", "now", "spent"),
    [
        (STARTED, 999, False),
        (UP, 159, False),
        (UP, 160, True),
        ([*TALKING, *[RoundPlayed("a", "x")] * 3], 102, True),
        (WARM, 999, False),
        ([*UP, LockReleased("a")], 999, False),
        ([*UP, BudgetSpent("a", "x")], 999, False),
    ],
)
def test_budget(events: list[Event], now: float, spent: bool) -> None:
    assert budget_spent(after(events), now, POLICY) is spent


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
    st.builds(CanaryDied, NAMES, st.just("x")),
    st.builds(CanaryLives, NAMES),
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
    stopping = [event.stopping for event in events if isinstance(event, StoppingSeen)]
    assert stopping[-1:] != [True]
