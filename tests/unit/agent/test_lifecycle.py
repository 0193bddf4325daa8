from dataclasses import replace

import pytest

from warmpod import reasons
from warmpod.agent.config import Medium
from warmpod.agent.lifecycle import Facts, Verdict, combine, decide
from warmpod.agent.places.weights import Pinned
from warmpod.agent.progress import Snapshot, Stage
from warmpod.agent.residency.holder import Measurement
from warmpod.agent.residency.memory import NO_LIMIT, OWN_BYTES, Room, shortage
from warmpod.agent.sources.origin import Kind, Origin
from warmpod.weights.findings import Finding

GIB = 2**30
HELD = Measurement(resident=4 * GIB, total=4 * GIB, locked=True, trusted=True)
LOOKED = Snapshot(Stage.CHECKED)
CHECKED = Facts(Medium.IMAGE, LOOKED, total=4 * GIB, files=3, measurement=HELD)
BAD = Finding("a.safetensors", reasons.DIGEST_MISMATCH, "sha256 is 1, the manifest says 2")
UNSIGNED = Finding("registry/image", reasons.SIGNATURE_MISSING, "no")
ORIGIN = Origin(Kind.NODE_PATH, "", "/data")
REFUSED = Verdict(False, reasons.MEMORY_TOO_SMALL, "no")


def under_way(stage: Stage, *, total: int = 0, step: int = 0, rate: float = 0) -> Facts:
    return Facts(Medium.IMAGE, Snapshot(stage, total, step * total // 10, step, rate))


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (
            CHECKED,
            Verdict(True, reasons.RESIDENT, "3 files, 4.0Gi, verified, locked in memory"),
        ),
        (
            replace(CHECKED, measurement=replace(HELD, locked=False)),
            Verdict(
                True,
                reasons.RESIDENT,
                "3 files, 4.0Gi, verified, in memory, not locked (no CAP_IPC_LOCK)",
            ),
        ),
        (
            replace(CHECKED, pinned=Pinned("main", "1a2b3c4" + 33 * "0")),
            Verdict(
                True,
                reasons.RESIDENT,
                "3 files, 4.0Gi, verified, main = 1a2b3c4, locked in memory",
            ),
        ),
        (
            replace(CHECKED, pinned=Pinned("1a2b3c4d", "1a2b3c4d" + 32 * "0")),
            Verdict(True, reasons.RESIDENT, "3 files, 4.0Gi, verified, locked in memory"),
        ),
        (
            replace(CHECKED, has_manifest=False),
            Verdict(
                True,
                reasons.RESIDENT,
                "3 files, 4.0Gi, read (NoManifest: nothing to compare with), locked in memory",
            ),
        ),
        (
            replace(CHECKED, measurement=replace(HELD, resident=3 * GIB)),
            Verdict(
                False,
                reasons.NOT_RESIDENT,
                "1.0Gi of 4.0Gi were dropped from memory; reading them again",
            ),
        ),
        (
            replace(CHECKED, medium=Medium.POD_MEMORY, measurement=None),
            Verdict(True, reasons.VERIFIED, "3 files, 4.0Gi, verified"),
        ),
        (
            replace(CHECKED, findings=(BAD,)),
            Verdict(
                False,
                reasons.DIGEST_MISMATCH,
                "a.safetensors: sha256 is 1, the manifest says 2",
            ),
        ),
        (
            replace(CHECKED, findings=(BAD,), origin=ORIGIN),
            Verdict(
                False,
                reasons.DIGEST_MISMATCH,
                "/data/a.safetensors: sha256 is 1, the manifest says 2 — put the right files there "
                "on the node",
            ),
        ),
        (
            replace(CHECKED, findings=(BAD,), origin=ORIGIN, repairs=True),
            Verdict(
                False,
                reasons.DIGEST_MISMATCH,
                "a.safetensors: sha256 is 1, the manifest says 2 — the agent brings it again by "
                "itself",
            ),
        ),
        (
            replace(CHECKED, findings=(UNSIGNED,), origin=ORIGIN),
            Verdict(False, reasons.SIGNATURE_MISSING, "registry/image: no"),
        ),
        (replace(CHECKED, problem=REFUSED), REFUSED),
        (
            under_way(Stage.VERIFYING),
            Verdict(False, reasons.VERIFYING, "verified nothing yet"),
        ),
        (
            under_way(Stage.STAGING, total=17 * GIB),
            Verdict(False, reasons.STAGING, "staged 0 % of 17.0Gi"),
        ),
        (
            under_way(Stage.VERIFYING, total=17 * GIB, step=4, rate=1.9 * GIB),
            Verdict(False, reasons.VERIFYING, "verified 40 % of 17.0Gi at 1.9Gi/s, 5 s left"),
        ),
        (
            under_way(Stage.STAGING, total=170 * GIB, step=5, rate=GIB / 2),
            Verdict(False, reasons.STAGING, "staged 50 % of 170.0Gi at 512.0Mi/s, 3 min left"),
        ),
        (
            under_way(Stage.STAGING, total=1700 * GIB, step=0, rate=GIB / 8),
            Verdict(False, reasons.STAGING, "staged 0 % of 1.7Ti at 128.0Mi/s, 4 h left"),
        ),
        (
            under_way(Stage.LOADING, total=4 * GIB, step=10, rate=GIB),
            Verdict(False, reasons.LOADING, "loaded 100 % of 4.0Gi at 1.0Gi/s, 0 s left"),
        ),
    ],
)
def test_verdict(facts: Facts, verdict: Verdict) -> None:
    assert decide(facts) == verdict


GOOD = Verdict(True, reasons.RESIDENT, "3 files")
BUSY = Verdict(False, reasons.STAGING, "staged 10 % of 4.0Gi")
BROKEN = Verdict(False, reasons.DIGEST_MISMATCH, "a.safetensors: bad")


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        ([("llama", BUSY)], BUSY),
        (
            [("llama", GOOD), ("draft", GOOD)],
            Verdict(True, reasons.RESIDENT, "llama: 3 files; draft: 3 files"),
        ),
        (
            [("llama", GOOD), ("draft", BUSY)],
            Verdict(False, reasons.STAGING, "draft: staged 10 % of 4.0Gi"),
        ),
        (
            [("llama", BUSY), ("draft", BROKEN)],
            Verdict(
                False,
                reasons.DIGEST_MISMATCH,
                "draft: a.safetensors: bad; llama: staged 10 % of 4.0Gi",
            ),
        ),
    ],
)
def test_one_verdict_for_all_sets(verdicts: list[tuple[str, Verdict]], combined: Verdict) -> None:
    assert combine(verdicts) == combined


@pytest.mark.parametrize("measurement", [None, replace(HELD, trusted=False)])
def test_what_cannot_be_measured_is_not_resident(measurement: Measurement | None) -> None:
    verdict = decide(replace(CHECKED, measurement=measurement))
    assert (verdict.ready, verdict.reason) == (False, reasons.RESIDENCY_NOT_MEASURABLE)


@pytest.mark.parametrize("medium", list(Medium))
@pytest.mark.parametrize("fault", [{"findings": (BAD,)}, {"problem": REFUSED}])
def test_no_fault_is_ever_ready(medium: Medium, fault: dict) -> None:
    assert not decide(replace(CHECKED, medium=medium, **fault)).ready


@pytest.mark.parametrize("stage", [Stage.STAGING, Stage.VERIFYING, Stage.LOADING])
def test_nothing_is_ready_while_content_is_being_read(stage: Stage) -> None:
    assert not decide(replace(CHECKED, progress=Snapshot(stage))).ready


def test_shortage_leaves_room_for_the_agent_itself() -> None:
    room = Room(limit=4 * GIB, available=100 * GIB)
    assert shortage(4 * GIB - OWN_BYTES, room) is None
    message = shortage(4 * GIB, room)
    assert message is not None
    assert "memory limit of 4.0Gi" in message
    assert "spec.weights.size" in message


def test_shortage_of_the_node() -> None:
    message = shortage(4 * GIB, Room(limit=None, available=GIB))
    assert message is not None
    assert "available memory of 1.0Gi" in message
    assert shortage(GIB, Room(limit=None, available=GIB)) is None


def test_limits_of_both_cgroup_versions(tmp_path, monkeypatch) -> None:
    from warmpod.agent.residency import memory

    file = tmp_path / "limit"
    monkeypatch.setattr(memory, "LIMIT_FILES", (tmp_path / "absent", file))
    assert memory.measure().limit is None
    for text, limit in (("max", None), ("1048576", 1048576), (str(NO_LIMIT * 7), None)):
        file.write_text(f"{text}\n")
        assert memory.measure().limit == limit
    assert memory.measure().available > 0
