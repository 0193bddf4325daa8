"""What the engine's development endpoints and its metrics tell."""

from pathlib import Path

import pytest

from unit.sidecar.answering import Server
from warmpod.sidecar.engine import Engine, EngineError
from warmpod.sidecar.power import Load, Power, memory_problem, read_load, read_offloaded


@pytest.fixture
def power(engine: Engine, tmp_path: Path) -> Power:
    return Power(engine, tmp_path)


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({}, None),
        ({"/is_sleeping": '{"is_sleeping": false}'}, False),
        ({"/is_sleeping": '{"is_sleeping": true}'}, True),
        ({"/is_paused": '{"is_paused": true}'}, True),
        ({"/is_sleeping": '{"is_sleeping": false}', "/is_paused": '{"is_paused": true}'}, True),
        ({"/is_sleeping": "?", "/is_paused": '{"is_paused": false}'}, False),
        ({"/is_sleeping": "[]"}, None),
    ],
)
async def test_whether_it_sleeps(
    pages: dict[str, str], expected: bool | None, server: Server, power: Power
) -> None:
    server.answers.update(pages)
    assert await power.is_sleeping() is expected


async def test_a_page_that_fails_does_not_say_that_the_engine_cannot_sleep(
    server: Server, power: Power
) -> None:
    server.broken.add("/is_sleeping")
    with pytest.raises(EngineError, match="/is_sleeping: 500"):
        await power.is_sleeping()


async def test_the_key_of_the_run_directory_is_sent_as_it_is_now(
    server: Server, power: Power, tmp_path: Path
) -> None:
    server.answers |= {"/sleep": "", "/wake_up": ""}
    await power.sleep()
    for key in ("one", "two"):
        (tmp_path / "dev-key").write_text(key)
        await power.wake_up()
    sent = [headers.get("X-Warmpod-Key") for _, headers, _ in server.requests]
    assert sent == [None, "one", "two"]


async def test_a_refusal_is_an_error(power: Power) -> None:
    with pytest.raises(EngineError, match="/wake_up: 404"):
        await power.wake_up()


PAGE = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4.0
vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0
vllm:engine_sleep_state{engine="0",sleep_state="weights_offloaded"} 1.0
vllm:engine_sleep_state{engine="1",sleep_state="weights_offloaded"} %s
"""


@pytest.mark.parametrize(
    ("page", "load"),
    [
        ("", None),
        ("vllm:num_requests_running 1.0\n", None),
        (PAGE % "1.0", Load(3, 4)),
        ("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", Load(0, 0)),
    ],
)
def test_load(page: str, load: Load | None) -> None:
    assert read_load(page) == load


@pytest.mark.parametrize(
    ("page", "offloaded"), [("", None), (PAGE % "1.0", True), (PAGE % "0.0", False)]
)
def test_weights_are_in_host_memory_when_all_ranks_say_so(
    page: str, offloaded: bool | None
) -> None:
    assert read_offloaded(page) is offloaded


@pytest.mark.parametrize(
    ("freed", "held", "problem"),
    [
        (0, 0, ""),
        (70, 2, ""),
        (6, 14, "it gave back only 6.0 of 20.0 GiB of GPU memory"),
    ],
)
def test_memory(freed: float, held: float, problem: str) -> None:
    assert memory_problem(freed, held) == problem
