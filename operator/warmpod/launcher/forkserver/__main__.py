"""Imports vLLM once, and forks an engine from itself each time the launcher asks.

    python DIRECTORY-OF-THIS-FILE DESCRIPTOR SCRIPT [MODULE...]

Run by the interpreter of the image's `vllm` SCRIPT, which need not be the launcher's, and with the
engine's own environment, so it imports nothing of warmpod. A directory of its own, because Python
puts the directory of a program before all others where it looks for modules; and one file, because
modules beside it would be the engine's as well, which goes on in a fork of this process.

DESCRIPTOR is a socket of whole messages (SOCK_SEQPACKET). This program sends one, as JSON:

    {"seconds": 15.9}                   it is ready; so long the imports took
    {"why": text}                       it cannot fork engines
    {"why": text, "module": name}       nor could it if it had not imported that MODULE

After the first it takes requests: the engine's arguments as a JSON list, with three descriptors
(stdout, stderr, and a socket). The engine sends its pid over that socket and waits for one byte;
if there comes none, because the launcher has given up waiting, it ends before it has begun.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import re
import socket
import sys
import time
import types
import warnings
from pathlib import Path

MAX_MESSAGE_BYTES = 1024 * 1024
# An exception may tell anything, and the launcher takes messages of 64 KiB.
LONGEST_WHY = 1000
PR_SET_NAME = 15
CUDA_SUCCESS = 0
NAME = "vllm-forkserver"

# Without these a fork would win nothing.
NEEDED = ("vllm", "vllm.entrypoints.cli.main")
# What `vllm serve` imports by and by until it answers, where this version has it: first in the API
# server's process, then in the engine's and its workers', which are forked from that one. Left out
# on purpose: vllm.compilation.backends and flashinfer, which initialise CUDA, and vllm.v1.worker's
# gpu_worker, which starts threads (vLLM 0.26 on an H200; of all imports it takes the last 0.5 s).
USEFUL = (
    # First: it sets variables that PyTorch reads when it is imported.
    "vllm.env_override",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.executor.multiproc_executor",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.model_executor.models.llama",
    "vllm.v1.attention.backends.flash_attn",
    "vllm.compilation.decorators",
    "torch._functorch.aot_autograd",
    "torch._inductor.compile_fx",
    "xgrammar",
)


# Threads that a fork may lack. jemalloc, which comes with PyArrow, has handlers for forks that make
# its own anew. The CUDA driver's is there as soon as PyTorch is imported, and has nothing to do
# before cuInit(), which the engine calls (H200, driver 580).
_HARMLESS = re.compile(r"jemalloc_bg_thd|cuda[0-9a-f]{11}")


class UnfitError(Exception):
    """No engine can be forked from this process. `module`: but for the import of that one."""

    def __init__(self, why: str, module: str = "") -> None:
        super().__init__(why)
        self.module = module


def main() -> None:
    """Be the server; in the engines that it forks, run SCRIPT."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    script, without = sys.argv[2], frozenset(sys.argv[3:])
    set_name(NAME)
    look_for_modules_as(script)
    began = time.monotonic()
    try:
        import_vllm(without)
    except UnfitError as unfit:
        module = {"module": unfit.module} if unfit.module else {}
        control.send(json.dumps({"why": str(unfit)[:LONGEST_WHY], **module}).encode())
        return
    # The pages of what is there now stay shared with the engines: no collection writes to them.
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"seconds": round(time.monotonic() - began, 3)}).encode())
    arguments = serve(control)
    if arguments is not None:
        control.close()
        run(script, arguments)


def look_for_modules_as(script: str) -> None:
    """Put the script's directory where Python has put this program's."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(script))


def import_vllm(without: frozenset[str]) -> None:
    """Raises UnfitError."""
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as failed:
            raise UnfitError(f"import of {name} failed: {failed!r}") from failed
        check_cuda(name)
        check_alone(name)
    for name in USEFUL:
        if name not in without and import_if_there(name):
            check_cuda(name, name)
            check_alone(name, name)


def import_if_there(name: str) -> bool:
    """What is missing or broken here is the engine's own concern, if it comes to import it."""
    try:
        importlib.import_module(name)
    except (Exception, SystemExit):
        return False
    return True


def check_cuda(after: str, module: str = "") -> None:
    """Raises UnfitError if the process has touched a GPU: its children could not use one."""
    torch = sys.modules.get("torch")
    if (torch is not None and torch.cuda.is_initialized()) or driver_is_initialised():
        raise UnfitError(f"import of {after} initialised CUDA", module)


def driver_is_initialised() -> bool:
    """Whether anything in the process has called cuInit(): before that, the driver's functions
    fail with CUDA_ERROR_NOT_INITIALIZED, and calling this one does no harm."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return False  # nobody has loaded it
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == CUDA_SUCCESS)


def check_alone(after: str, module: str = "") -> None:
    """Raises UnfitError if threads or child processes run: a fork would not have them.

    Before it is said, a fork that comes to nothing: it ends the threads of libraries that are
    prepared for forks, as OpenBLAS is, which make them again when they have work.
    """
    if threads():
        pid = fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    if found := threads():
        raise UnfitError(f"import of {after} started threads: {', '.join(found)}", module)
    if Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        raise UnfitError(f"import of {after} started processes")


def threads() -> list[str]:
    """Names of those that a fork would lack, beside the harmless ones."""
    names = []
    for thread in sorted(os.listdir("/proc/self/task")):
        try:
            name = Path(f"/proc/self/task/{thread}/comm").read_text().strip()
        except OSError:
            continue  # it has ended
        if int(thread) != os.getpid() and not _HARMLESS.fullmatch(name):
            names.append(name)
    return names


def fork() -> int:
    """As os.fork, whose warning about threads is for programs that do not look at them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def serve(control: socket.socket) -> list[str] | None:
    """Fork an engine for each request. Returns its arguments in the engine, and in the server None
    when the launcher is gone."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 3)
        if not message:
            return None
        if fork_engine(descriptors):
            return [str(word) for word in json.loads(message)]


def fork_engine(descriptors: list[int]) -> bool:
    """Whether this is the engine.

    A child of a child that ends at once, so that it becomes the launcher's own. Without memory for
    a fork the launcher sees the socket's end.
    """
    flush()
    try:
        pid = fork()
    except OSError as failed:
        sys.stderr.write(f"fork server: no fork: {failed}\n")
        pid = -1
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            os.waitpid(pid, 0)
        return False
    between = os.getpid()
    try:
        if fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    become_engine(between, descriptors)
    return True


def become_engine(between: int, descriptors: list[int]) -> None:
    """Be what a program is that the launcher has started; exits if the launcher does not wait."""
    while os.getppid() == between:
        time.sleep(0.001)
    os.setpgid(0, 0)
    for descriptor, target in zip(descriptors, (1, 2), strict=False):
        os.dup2(descriptor, target)
        os.close(descriptor)
    with socket.socket(fileno=descriptors[2]) as launcher:
        try:
            launcher.send(str(os.getpid()).encode())
            if launcher.recv(1):
                return
        except OSError:
            pass  # the same: nobody waits
    os._exit(0)


def flush() -> None:
    """What is still in a buffer would be written once by each engine."""
    sys.stdout.flush()
    sys.stderr.flush()


def run(script: str, arguments: list[str]) -> None:
    """Run the script as the interpreter would have: what it imports is there already."""
    sys.argv = [script, *arguments]
    set_name(os.path.basename(script))
    # vLLM's command line has its other processes started anew, which would import all of it again.
    # Part of no cache key, and vLLM goes back to `spawn` by itself where `fork` cannot be.
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    draw_anew()
    program = types.ModuleType("__main__")
    program.__file__ = script
    # Processes that are started anew import what this module says it is.
    sys.modules["__main__"] = program
    code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    exec(code, program.__dict__)  # noqa: S102 - the image's own program


def set_name(name: str) -> None:
    """What `ps` and the kernel's log call this process; they show 15 characters."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def draw_anew() -> None:
    """Engines of one server must not draw the same random numbers. Python's own module sees to
    that by itself; NumPy does not, and PyTorch starts with the same seed in every process."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


if __name__ == "__main__":
    main()
