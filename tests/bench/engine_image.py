"""What the precompiled engine image saves of a start: by turns with its base, on the CPU.

The base is the project's engine image for the CPU without its compiled files: as upstream's, which
has none. Without a cluster: what counts is the engine's own start, not its pod's.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import tiny_model
from bench.files import DISK
from bench.roots import Cost, Started, commit, files_of, forget, root_of
from devtools import buildah, engine_image, images
from devtools.layout import config_of, layers_of
from simulator.harness import free_port
from support.api import JsonObject
from support.models import vllm_engine
from support.page_cache import resident_bytes

COMPILED = "localhost/bench/compiled"
NAMES = {"base": "localhost/bench/base", "precompiled": "localhost/bench/precompiled"}
REPEATS = 3
IMPORTS = 5
WITHOUT_BYTECODE = ["find", "/", "-xdev", "-name", "__pycache__", "-exec", "rm", "-r", "{}", "+"]
PACKAGES = "/opt/vllm/packages"
IMPORT = ["python3", "-c", "import vllm.entrypoints.openai.api_server"]
# How Python finds out whether what was compiled is of the source that is there.
CHECKS = ("timestamp", "checked-hash", "unchecked-hash")
ENGINE = vllm_engine()
INSPECTED = "Resolved architecture: "
ARGUMENTS = "non-default args: "


def measure() -> JsonObject:
    try:
        with tempfile.TemporaryDirectory(dir=DISK) as name:
            return measure_in(Path(name))
    finally:
        for name in (COMPILED, *NAMES.values()):
            if buildah.has_image(name):
                buildah.output("rmi", name)
        buildah.remove_unused()


def measure_in(directory: Path) -> JsonObject:
    model, base = directory / "model", directory / "base"
    tiny_model.KINDS["chat"](model)
    buildah.load(images.ensure(engine_image.DEFAULT_BASE).layout, COMPILED)
    commit(COMPILED, WITHOUT_BYTECODE, base)
    built = engine_image.build(str(base)).layout
    buildah.load(base, NAMES["base"])
    buildah.load(built, NAMES["precompiled"])
    environment = config_of(base)["config"]["Env"]
    environment += [f"{variable['name']}={variable['value']}" for variable in ENGINE["env"]]
    # Where vLLM looks by itself, as root in upstream's image.
    measured = Measurement(model, [*environment, "HOME=/root", "HF_HUB_OFFLINE=1"])
    return {
        "layers": [
            {"bytes": layer.size, "step": layer.made_by[-80:]} for layer in layers_of(built)
        ],
        "base_layers": len(layers_of(base)),
        "imports": measured.imports(NAMES["base"]),
        "starts": measured.starts(),
    }


class Measurement:
    """Runs an engine, or a part of it, in new containers."""

    def __init__(self, model: Path, environment: list[str]) -> None:
        self._model = model
        self._environment = environment

    def starts(self) -> JsonObject:
        found: dict[str, dict[str, list[JsonObject]]] = {
            cache: {name: [] for name in NAMES} for cache in ("page cache", "cold")
        }
        for _ in range(REPEATS):
            for cache, starts in found.items():
                for name, image in NAMES.items():
                    with root_of(image) as root:
                        prepare(root, cache)
                        starts[name].append(self._start(root, cache))
                    print(cache, name, starts[name][-1], flush=True)
        return {cache: with_medians(starts) for cache, starts in found.items()}

    def _start(self, root: Path, cache: str) -> JsonObject:
        port = free_port()
        command = ["vllm", "serve", "/models/bench", f"--port={port}", *ENGINE["args"]]
        started = Started(root, self._model, self._environment, command)
        try:
            arguments, inspected = started.seconds_to(ARGUMENTS), started.seconds_to(INSPECTED)
            healthy = started.seconds_until_healthy(port)
            spent = started.processor_seconds()
            read = resident_bytes(files_of(root)) if cache == "cold" else 0
        finally:
            started.end()
        return {
            "imports_s": round(arguments, 2),
            "model_class_s": round(inspected - arguments, 2),
            "rest_s": round(healthy - inspected, 2),
            "to_health_s": round(healthy, 2),
            "processor_s": round(spent, 2),
            **({"read_mib": round(read / 2**20)} if read else {}),
        }

    def imports(self, base: str) -> JsonObject:
        """Of importing vLLM's server, by what is compiled and how Python checks it."""
        with self._compiled(base) as roots:
            found: dict[str, dict[str, list[Cost]]] = {
                cache: {name: [] for name in roots} for cache in ("page cache", "cold")
            }
            for _ in range(IMPORTS):
                for cache, times in found.items():
                    for name, root in roots.items():
                        prepare(root, cache)
                        started = Started(root, self._model, self._environment, IMPORT)
                        times[name].append(started.end_by_itself())
                        print(cache, name, times[name][-1], flush=True)
        return {
            cache: with_medians(
                {name: [asdict(cost) for cost in costs] for name, costs in times.items()}
            )
            for cache, times in found.items()
        }

    @contextmanager
    def _compiled(self, base: str) -> Iterator[dict[str, Path]]:
        """The base as it is, and compiled in each way."""
        with ExitStack() as stack:
            roots = {name: stack.enter_context(root_of(base)) for name in ("", *CHECKS)}
            for name in CHECKS:
                mode = f"--invalidation-mode={name}"
                compile_all = ["python3", "-m", "compileall", "-q", "-j0", mode, PACKAGES]
                # Some files are no Python, which it counts as a failure.
                command = ["sh", "-c", f"{' '.join(compile_all)} || true"]
                Started(roots[name], self._model, self._environment, command).end_by_itself()
            yield {name or "not compiled": root for name, root in roots.items()}


PREPARATIONS: dict[str, Callable[[Path], None]] = {"cold": forget, "page cache": lambda _: None}


def prepare(root: Path, cache: str) -> None:
    PREPARATIONS[cache](root)


def with_medians(measured: dict[str, list[JsonObject]]) -> JsonObject:
    return {
        name: {
            "median": {
                part: round(statistics.median(each[part] for each in found), 2) for part in found[0]
            },
            "all": found,
        }
        for name, found in measured.items()
    }
