#!/usr/bin/env python3
"""Runs all layers of tests: lint, unit, processes, API server, cluster.

The last two run on the local cluster, which is started and set up on the way.
The last line tells how many tests passed and failed. With the word `unit`, only that layer.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import lint
from devtools import places, steps

REPORTS = places.CACHE / "reports"


@dataclass(frozen=True)
class Result:
    name: str
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Pytest:
    """A folder of tests. One that hangs must not hold up what runs the tests."""

    folder: str
    limit_s: int
    options: tuple[str, ...] = ()
    part: str = ""

    @property
    def name(self) -> str:
        return f"{self.folder}, {self.part}" if self.part else self.folder

    def __call__(self) -> Result:
        report = REPORTS / f"{self.folder}{self.part and '-'}{self.part}.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", f"tests/{self.folder}", f"--junitxml={report}"]
        command += self.options
        started = time.monotonic()
        try:
            code = subprocess.run(command, cwd=places.ROOT, check=False, timeout=self.limit_s)
            ended_well = code.returncode in (0, 1)  # all passed, or some failed
        except subprocess.TimeoutExpired:
            steps.say(f"tests/{self.folder}: stopped after {self.limit_s} s")
            ended_well = False
        return counted(self.name, time.monotonic() - started, report, ended_well)


def counted(name: str, seconds: float, report: Path, ended_well: bool) -> Result:
    """A run that broke off is one more failure, beside those it reported."""
    failed = 0 if ended_well else 1
    if not report.exists():
        return Result(name, seconds, failed=max(failed, 1))
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        for key in total:
            total[key] += int(suite.get(key, 0))
    bad = total["failures"] + total["errors"]
    passed = total["tests"] - bad - total["skipped"]
    return Result(name, seconds, passed, bad + failed, total["skipped"])


def run_lint() -> Result:
    started = time.monotonic()
    failed = len(lint.failed_checks())
    passed = lint.number_of_checks() - failed
    return Result("lint", time.monotonic() - started, passed, failed)


def prepared(name: str, *commands: tuple[str, ...]) -> Callable[[], Result]:
    """Programs, run side by side, that make ready what the next layers need."""

    def prepare() -> Result:
        started = time.monotonic()
        running = [subprocess.Popen(command, cwd=places.ROOT) for command in commands]
        failed = sum(process.wait() != 0 for process in running)
        return Result(name, time.monotonic() - started, failed=failed)

    return prepare


IMAGES = (sys.executable, "hack/images.py")
# More workers than cores: half of the time they wait for processes that they started.
WORKERS = ("--numprocesses=4", "--dist=worksteal")
UNIT = Pytest("unit", limit_s=600, options=WORKERS)
# With thousands of generated cases, where a run in between has hundreds.
WHOLE_UNIT = Pytest("unit", limit_s=900, options=(*WORKERS, "--hypothesis-profile=thorough"))
PROCESSES = Pytest("processes", limit_s=900, options=WORKERS)
# Compilers and package downloads hardly get in each other's way.
BUILD = prepared("programs and images", ("hack/cluster/build",), (*IMAGES, "--no-push"))
PREPARATIONS = (
    prepared("start of the cluster", ("hack/cluster/cluster", "up")),
    prepared("push of the images", IMAGES),
    prepared("install", (sys.executable, "hack/install.py")),
)
# Two files at a time, most of whose time is waiting; what would be disturbed comes afterwards.
TOGETHER = ("--numprocesses=2", "--dist=loadfile", "-m", "not alone")
ALONE = ("-m", "alone")
ON_CLUSTER = (
    Pytest("apiserver", limit_s=1200),
    Pytest("cluster", limit_s=2400, options=TOGETHER, part="together"),
    Pytest("cluster", limit_s=3600, options=ALONE, part="alone"),
)


def main() -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:] == ["unit"]:
        return report([UNIT()])
    # The unit tests of what is installed render it with the cluster's kubectl and helm.
    results = [run_lint(), built := BUILD(), WHOLE_UNIT(), PROCESSES()]
    if not built.failed:
        results += layers_on_cluster()
    return report(results)


def layers_on_cluster() -> list[Result]:
    results = []
    for prepare in PREPARATIONS:
        results.append(prepare())
        if results[-1].failed:
            steps.say(f"{results[-1].name} failed: the layers that need it are left out")
            return results
    return results + [layer() for layer in ON_CLUSTER]


def report(results: list[Result]) -> int:
    """Tell how it went; the exit code."""
    steps.say(table(results))
    failed = sum(result.failed for result in results)
    steps.say(f"{sum(result.passed for result in results)} passed, {failed} failed")
    return 1 if failed else 0


def table(results: list[Result]) -> str:
    lines = [f"\n{'':<26}{'seconds':>8}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for result in results:
        counts = f"{result.passed:>8}{result.failed:>8}{result.skipped:>9}"
        lines.append(f"{result.name:<26}{result.seconds:>8.1f}{counts}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
