"""A program that behaves like one of the engines that the launcher has to live with.

Usage: fake_engine.py BEHAVIOUR [ARGUMENT...]; behaviours are the functions below. They import what
only they need, because a test waits for the start of several of them.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

READY = "INFO:     Application startup complete."
FOR_EVER = 3600


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_pid(path: str) -> None:
    """Write the own pid so that a reader sees all of it or no file."""
    temporary = Path(f"{path}.new")
    temporary.write_text(str(os.getpid()))
    temporary.rename(path)


def exit_with(code: str, *lines: str) -> None:
    """Say the lines and exit."""
    for line in lines:
        say(line)
    sys.exit(int(code))


def serve() -> None:
    """Be ready, and exit with 0 on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    say(READY)
    time.sleep(FOR_EVER)


def load() -> None:
    """Start for ever and ignore SIGTERM meanwhile, as vLLM does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("Starting to load model tiny...")
    time.sleep(FOR_EVER)


def stubborn() -> None:
    """Be ready, ignore the first SIGTERM and exit with 3 on the second."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    say(READY)
    while len(signals) < 2:
        time.sleep(0.01)
    sys.exit(3)


def with_worker(ready: str, pid_file: str, seconds: str = "0") -> None:
    """Have a child titled as vLLM's, and outlive its death; say `ready` first if it is `yes`."""
    import ctypes

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(15, ctypes.c_char_p(b"VLLM::EngineCore"), 0, 0, 0)
        write_pid(pid_file)
        time.sleep(float(seconds) or FOR_EVER)
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if ready == "yes":
        say(READY)
    time.sleep(FOR_EVER)


def orphan(pid_file: str) -> None:
    """Leave an orphan that ends by itself, and stay."""
    os.system(f"sleep 0.1 >/dev/null & echo $! > {pid_file}")
    serve()


def holder(pid_file: str) -> None:
    """Exit, but leave a process that keeps the pipes open, in a session of its own."""
    import subprocess

    child = subprocess.Popen(
        [sys.executable, __file__, "ignore_term", pid_file], start_new_session=True
    )
    while not Path(pid_file).exists():
        time.sleep(0.01)
    say(f"left {child.pid} behind")
    os._exit(5)


def ignore_term(pid_file: str) -> None:
    """Ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_pid(pid_file)
    time.sleep(FOR_EVER)


def noise() -> None:
    """Print what no decoder likes."""
    out = sys.stdout.buffer
    out.write(b"\xff\xfe not utf-8 \x00\n" + b"x" * 1_000_000 + b"\n")
    out.write(b"10%\r50%\r100%\n")
    out.flush()
    sys.stderr.write("no newline at the end")
    sys.stderr.flush()
    serve()


def metrics(port: str, running_file: str, certificate: str = "") -> None:
    """Serve vLLM's metrics; the number of running requests comes from a file."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            say(f"GET {self.path}")
            running = Path(running_file).read_text()
            text = f'vllm:num_requests_running{{engine="0"}} {running}\n'
            text += 'vllm:num_requests_waiting{engine="0"} 0.0\n'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    if certificate:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    say(READY)
    server.serve_forever()


def compiler(program: str, cache: str, go: str) -> None:
    """Be ready; when told to, run the program and write into the cache."""
    import subprocess

    say(READY)
    while not Path(go).exists():
        time.sleep(0.01)
    subprocess.run([program, "1"], check=True)
    folder = Path(cache, "kernel")
    folder.mkdir(parents=True)
    (folder / "k.new").write_bytes(b"12345")
    (folder / "k.new").rename(folder / "k.so")
    time.sleep(FOR_EVER)


def fill(directory: str, mark: str) -> None:
    """At the first time, fill the directory and die; then serve."""
    if not Path(mark).exists():
        Path(mark).touch()
        with Path(directory, "mine").open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"x" * 4096)
                except OSError:
                    break
        sys.exit(1)
    serve()


def arguments(*_: str) -> None:
    """Print the command line."""
    import json

    say(json.dumps(sys.argv))
    serve()


def environment() -> None:
    """Print the environment."""
    import json

    say(json.dumps(dict(os.environ)))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
