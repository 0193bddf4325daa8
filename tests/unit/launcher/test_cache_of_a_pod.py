"""The compile cache of one pod: what is remembered, what follows, and what is said of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmpod.compilecache import entry as entries
from warmpod.compilecache.entry import EntryError
from warmpod.compilecache.factors import Factors, key
from warmpod.compilecache.layout import Store
from warmpod.launcher.cache import podcache as compilecache
from warmpod.launcher.cache import store as cachestore
from warmpod.launcher.cache.directory import CacheDirectory, with_variables
from warmpod.launcher.cache.podcache import NOTHING_USED, CompileCache
from warmpod.launcher.cache.state import Start, State, blames_cache, load, save, start
from warmpod.launcher.cache.store import StoreClient
from warmpod.launcher.log.stages import Stage
from warmpod.launcher.policy import Ending
from warmpod.startup.names import CACHE_OUTCOMES

FACTORS = Factors(image="i")
HIT, COMPILED, SIZED = Stage("aot_hit"), Stage("compile"), Stage("kv_size")
FAILED = Stage("aot_fail", detail="stale")


@pytest.mark.parametrize(
    ("state", "empty", "then"),
    [
        (None, True, Start.FILL),
        (None, False, Start.KEEP),
        (State(), True, Start.FILL),
        (State(filling=True), False, Start.FILL),
        (State(key="k"), False, Start.KEEP),
        (State(key="k", trying="b"), False, Start.SET_ASIDE),
        (State(trying="b"), True, Start.SET_ASIDE),
        (State(trying="b", foreign=True), False, Start.KEEP),
        (State(refused=True), True, Start.COMPILE),
        (State(refused=True), False, Start.KEEP),
    ],
)
def test_how_a_life_begins(state: State | None, empty: bool, then: Start) -> None:
    assert start(state, empty) is then


SEGFAULT = Ending("engine-process-died", signal=11)


@pytest.mark.parametrize(
    ("ending", "stopped", "warm", "reasons", "blamed"),
    [
        (SEGFAULT, False, False, [], True),
        (Ending("exited", exit_code=1), False, False, ["EngineStartFailed", "WorkerDied"], True),
        (Ending("exited", exit_code=1), False, False, ["UnsupportedGpu"], True),
        (Ending("warmup-failed"), False, False, [], True),
        (SEGFAULT, False, True, [], False),
        (SEGFAULT, True, False, [], False),
        (Ending("stopping"), False, False, [], False),
        (SEGFAULT, False, False, ["OutOfMemoryInWeights", "EngineStartFailed"], False),
        (SEGFAULT, False, False, ["MissingToken"], False),
    ],
)
def test_what_the_cache_is_blamed_for(
    ending: Ending, stopped: bool, warm: bool, reasons: list[str], blamed: bool
) -> None:
    assert blames_cache(ending, stopped, warm, reasons) is blamed


def test_the_state_survives(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert load(path) is None
    save(path, State(key="k", unpublished=True))
    assert load(path) == State(key="k", unpublished=True)
    for text in ("", "[]", '{"other": 1}'):
        path.write_text(text)
        assert load(path) is None


# Where a pod has what the image's home has.
FILES = ["flashinfer/.cache/flashinfer/0.6/90a/k.so", "triton/a/b.cubin", "vllm/m.json"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of an image with caches."""
    home = tmp_path / "home"
    for name in (".cache/flashinfer/0.6/90a/k.so", ".triton/cache/a/b.cubin", ".cache/vllm/m.json"):
        path = home / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
        os.utime(path, ns=(1, 2_000_000_003))
    return home


def directory_at(path: Path, home: Path, **variables: str) -> CacheDirectory:
    path.mkdir()
    return CacheDirectory(path, with_variables(variables, path), [home / "none", home])


def files_below(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def test_what_the_image_has_is_copied(tmp_path: Path, home: Path) -> None:
    directory = directory_at(tmp_path / "cache", home)
    assert directory.is_empty()
    directory.seed()
    copied = tmp_path / "cache/flashinfer/.cache/flashinfer/0.6/90a/k.so"
    assert copied.stat().st_mtime_ns == 2_000_000_003
    assert files_below(tmp_path / "cache") == FILES
    assert all(directory.is_seed(name, (tmp_path / "cache" / name).stat()) for name in FILES)
    copied.write_text("another")
    assert not directory.is_seed(FILES[0], copied.stat())
    assert not directory.is_seed("triton/new", copied.stat())
    directory.seed()
    assert copied.read_text() == "another"
    directory.clear()
    assert directory.is_empty()
    assert (directory.path / "triton/a").is_dir()


def test_what_the_user_keeps_elsewhere_is_not_copied(tmp_path: Path, home: Path) -> None:
    directory = directory_at(tmp_path / "cache", home, TRITON_CACHE_DIR="/t", VLLM_CACHE_ROOT="")
    directory.seed()
    assert files_below(tmp_path / "cache") == FILES[:1]
    assert not directory.holds("VLLM_CACHE_ROOT")
    assert directory.holds("CUDA_CACHE_PATH")


class Pod:
    """A cache directory, a store, and the events that were told."""

    def __init__(self, tmp_path: Path, home: Path, **variables: str) -> None:
        self.run = tmp_path / "run"
        self.run.mkdir()
        self.store = Store(tmp_path / "store")
        for path in (self.store.published, self.store.incoming):
            path.mkdir(parents=True)
        self.baked = Store(tmp_path / "baked")
        self.directory = directory_at(tmp_path / "cache", home, **variables)
        self.told: list[tuple[str, str]] = []
        self.start()

    def start(self) -> None:
        client = StoreClient(self.store, self.baked, FACTORS)
        self.cache = CompileCache(self.directory, lambda: client, self.run, self.tell)

    def tell(self, event: str, _boot: str, **fields: Any) -> None:
        self.told.append((str(fields.get("outcome", event)), str(fields.get("why", ""))))

    def publish(self, work: Path, factors: Factors = FACTORS, store: Store | None = None) -> None:
        (work / "vllm").mkdir(parents=True)
        (work / "vllm/model").write_text("compiled")
        entries.write(work, (store or self.store).published / key(factors), factors, 0)

    def compile(self) -> None:
        (self.directory.path / "vllm").mkdir(exist_ok=True)
        (self.directory.path / "vllm/model").write_text("compiled here")

    def marks(self) -> list[str]:
        return sorted(path.name.partition("-")[0] for path in self.store.incoming.iterdir())


@pytest.fixture
def pod(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setattr(cachestore, "_step_back", lambda: None)  # the tests go on
    return Pod(tmp_path, home)


def test_an_offer_has_what_the_image_lacks(pod: Pod) -> None:
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.hear(COMPILED)
    pod.cache.hear(SIZED)
    pod.cache.boot_is_warm("b")
    assert pod.told == [("miss", "nothing is stored yet"), ("cache-offered", "")]
    (offer,) = pod.store.incoming.iterdir()
    assert [file.path for file in entries.read(offer).files] == ["vllm/model"]
    pod.cache.boot_is_warm("b")
    assert len(pod.told) == 2


def test_a_filled_directory_has_what_the_image_has_too(pod: Pod, tmp_path: Path) -> None:
    pod.publish(tmp_path / "work")
    pod.cache.prepare()
    assert files_below(pod.directory.path) == [*FILES, "vllm/model"]
    assert pod.told == [("filled", "")]
    assert pod.marks() == ["used"]


def test_nothing_is_offered_that_another_pod_was_faster_with(pod: Pod, tmp_path: Path) -> None:
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.publish(tmp_path / "work")
    pod.cache.boot_is_warm("b")
    assert pod.marks() == []


def test_an_entry_that_was_proven_is_not_set_aside(pod: Pod, tmp_path: Path) -> None:
    """Only the copy of this pod is: the boots before may have changed it."""
    pod.publish(tmp_path / "work")
    pod.cache.prepare()
    for boot in ("b", "c"):
        pod.cache.boot_starts(boot)
        pod.cache.hear(HIT)
        if boot == "b":
            pod.cache.boot_is_warm(boot)
        pod.cache.boot_ended(boot, "by signal 11", blamed=boot == "c")
    assert [outcome for outcome, _ in pod.told] == ["filled", "set-aside"]
    assert pod.directory.is_empty()
    assert pod.marks() == ["used"]


def test_a_container_that_dies_while_it_is_filled_is_filled_anew(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.publish(tmp_path / "work")

    def die(_entry: entries.Entry, target: Path) -> None:
        (target / "vllm").mkdir()
        (target / "vllm/half").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(entries, "unpack", die)
        with pytest.raises(KeyboardInterrupt):
            pod.cache.prepare()
    pod.start()
    pod.cache.prepare()
    assert pod.told == [("filled", "")]
    assert files_below(pod.directory.path) == [*FILES, "vllm/model"]


def test_a_full_disk_leaves_no_half_of_anything(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.publish(tmp_path / "work")

    def unpack(_entry: entries.Entry, target: Path) -> None:
        copy(Path(), target / "half")

    def copy(_source: Path, target: Path) -> None:
        target.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entries, "unpack", unpack)
    monkeypatch.setattr("shutil.copy2", copy)
    pod.cache.prepare()
    assert pod.told == [("miss", "what is stored cannot be copied: No space left on device")]
    assert pod.directory.is_empty()
    assert pod.marks() == []


def test_what_was_compiled_is_offered_by_a_later_boot(pod: Pod) -> None:
    """The first one became warm, and died before it could offer anything."""
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.boot_ended("b", "exited", blamed=False)
    pod.start()
    pod.cache.prepare()
    pod.cache.boot_starts("c")
    pod.cache.hear(HIT)
    pod.cache.boot_is_warm("c")
    assert [outcome for outcome, _ in pod.told] == ["miss", "kept", "cache-offered"]


def test_what_is_baked_into_the_image_fits_whatever_image_it_was_made_with(
    pod: Pod, tmp_path: Path
) -> None:
    pod.baked.published.mkdir(parents=True)
    pod.publish(tmp_path / "one", Factors(image="before", model="m"), pod.baked)
    pod.publish(tmp_path / "other", Factors(image="i", driver="2"), pod.baked)
    pod.cache.prepare()
    assert pod.told == [("filled", "")]
    pod.cache.boot_starts("b")
    pod.cache.hear(HIT)
    pod.cache.boot_ended("b", "by signal 11", blamed=True)
    assert pod.directory.is_empty()
    assert pod.marks() == []  # there is nothing that an agent could set aside


def test_what_is_baked_into_the_image_is_compared_with(pod: Pod, tmp_path: Path) -> None:
    pod.baked.published.mkdir(parents=True)
    pod.publish(tmp_path / "one", Factors(image="other", driver="2"), pod.baked)
    pod.cache.prepare()
    assert pod.told == [("miss", "driver changed from 2 to none")]


def test_a_crash_on_what_this_pod_compiled_empties_the_directory(pod: Pod) -> None:
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.hear(HIT)
    pod.cache.boot_ended("b", "by signal 11", blamed=True)
    assert pod.told[1:] == [("set-aside", "boot b ended before it was warm: by signal 11")]
    assert pod.directory.is_empty()
    assert pod.marks() == []
    pod.start()
    pod.cache.prepare()
    assert pod.told[2] == ("set-aside", "an earlier boot of this pod died with it")
    assert pod.directory.is_empty()


def test_a_crash_without_a_hit_empties_nothing(pod: Pod) -> None:
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.boot_ended("b", "by signal 11", blamed=True)
    assert not pod.directory.is_empty()


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        ([HIT, COMPILED, SIZED], []),
        ([COMPILED, HIT, COMPILED, SIZED], []),
        ([COMPILED, SIZED, Stage("ready")], [("set-aside", NOTHING_USED)]),
        ([SIZED, Stage("ready")], []),
        ([FAILED, COMPILED], [("set-aside", "the engine cannot load it: stale")]),
        ([HIT, FAILED, FAILED], [("set-aside", "the engine cannot load it: stale")]),
        ([Stage("compile_nonaot"), Stage("ready")], []),
    ],
)
def test_only_the_engine_says_whether_an_entry_is_good(
    pod: Pod, tmp_path: Path, heard: list[Stage], told: list[tuple[str, str]]
) -> None:
    pod.publish(tmp_path / "work")
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    for stage in heard:
        pod.cache.hear(stage)
    assert pod.told[1:] == told
    assert pod.marks() == (["bad", "used"] if told else ["used"])
    pod.cache.boot_is_warm("b")
    assert ("cache-offered", "") in pod.told or not told


def test_nothing_is_said_of_a_cache_that_is_elsewhere(tmp_path: Path, home: Path) -> None:
    pod = Pod(tmp_path, home, VLLM_CACHE_ROOT="/users/own")
    pod.publish(tmp_path / "work")
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.cache.hear(COMPILED)
    pod.cache.hear(SIZED)
    assert pod.told == [("filled", "")]


def test_a_directory_that_was_not_empty_is_left_alone(pod: Pod, tmp_path: Path) -> None:
    pod.publish(tmp_path / "work")
    pod.compile()
    pod.start()
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.cache.hear(HIT)
    pod.cache.boot_ended("b", "by signal 11", blamed=True)
    pod.cache.boot_starts("c")
    pod.cache.hear(FAILED)
    pod.cache.boot_is_warm("c")
    assert pod.told == [("kept", ""), ("miss", "the engine cannot load it: stale")]
    assert files_below(pod.directory.path) == ["vllm/model"]


def test_an_entry_that_goes_while_it_is_read_is_a_miss(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod.publish(tmp_path / "work")

    def unpack(entry: entries.Entry, target: Path) -> None:
        (target / "vllm").mkdir()
        (target / "vllm/part").touch()
        entry.directory.rename(tmp_path / "gone")
        raise EntryError("vllm/model cannot be read")

    monkeypatch.setattr(entries, "unpack", unpack)
    pod.cache.prepare()
    assert pod.told == [("miss", "the entry was removed while it was read")]
    assert files_below(pod.directory.path) == FILES
    assert pod.marks() == []


def test_an_offer_waits_for_the_agent(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = iter([PermissionError("incoming"), PermissionError("incoming"), None])
    monkeypatch.setattr(cachestore, "AGENT_SECONDS", 0.0)
    offer = StoreClient.offer

    def refused(self: StoreClient, *arguments: Any) -> entries.Entry | None:
        if (refusal := next(attempts)) is not None:
            raise refusal
        return offer(self, *arguments)

    monkeypatch.setattr(StoreClient, "offer", refused)
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.boot_is_warm("b")
    assert pod.told[-1] == ("cache-offered", "")


def test_nothing_is_offered_that_was_set_aside_meanwhile(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = entries.write

    def write_and_crash(*arguments: Any) -> entries.Entry:
        entry = write(*arguments)
        pod.cache.boot_starts("c")
        pod.cache.hear(HIT)
        pod.cache.boot_ended("c", "by signal 11", blamed=True)
        return entry

    monkeypatch.setattr(entries, "write", write_and_crash)
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.boot_is_warm("b")
    assert pod.marks() == []
    assert "cache-offered" not in dict(pod.told)


def test_a_disk_that_is_nearly_full_is_left_alone(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cachestore, "MOST_OF_FREE", 0.0)
    pod.cache.prepare()
    pod.cache.boot_starts("b")
    pod.compile()
    pod.cache.boot_is_warm("b")
    assert pod.marks() == []
    assert "too little room" in capfd.readouterr().err


def test_outcomes_are_those_that_the_operator_counts() -> None:
    """Its metric has one label for all others."""
    sources = "".join(Path(module.__file__).read_text() for module in (cachestore, compilecache))
    assert set(re.findall(r'Outcome\("([a-z-]+)"', sources)) == set(CACHE_OUTCOMES)


@pytest.mark.parametrize("broken", [OSError("no"), ValueError("no")])
def test_an_engine_starts_without_its_cache(
    pod: Pod, broken: Exception, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> StoreClient | None:
        raise broken

    opens: Callable[[], StoreClient | None] = fail
    cache = CompileCache(pod.directory, opens, tmp_path / "run", pod.tell)
    cache.prepare()
    cache.boot_starts("b")
    cache.hear(COMPILED)
    cache.boot_is_warm("b")
    cache.boot_ended("b", "exited", blamed=True)
    assert "cannot be prepared: no" in capfd.readouterr().err
    assert pod.told == []
