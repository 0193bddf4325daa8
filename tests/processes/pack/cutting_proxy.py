"""A TCP proxy that cuts or holds connections after a number of bytes, whatever goes through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Counts the bytes of clients. `cut_at` ends a connection each time the count passes the next
    number; from `hold_at` on nothing goes through until `release` is called."""

    def __init__(self, host: str) -> None:
        name, _, port = host.partition(":")
        self._target = (name, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._released = threading.Event()
        self.held = threading.Event()
        self.count = 0
        self.cuts = 0
        self.cut_at: list[int] = []
        self.hold_at: int | None = None
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"

    def release(self) -> None:
        self.hold_at = None
        self._released.set()

    def serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        self.release()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for end in list(self._open):
            _end(end)

    def _connect(self, client: socket.socket) -> None:
        try:
            registry = socket.create_connection(self._target)
        except OSError:
            _end(client)
            return
        self._open |= {client, registry}
        back = threading.Thread(target=self._copy, args=(registry, client), daemon=True)
        back.start()
        self._copy(client, registry, counted=True)
        back.join()
        self._open -= {client, registry}
        client.close()
        registry.close()

    def _copy(self, source: socket.socket, sink: socket.socket, counted: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(16384):
                if counted and self._is_cut(len(data)):
                    break
                sink.sendall(data)
        _end(source)
        _end(sink)

    def _is_cut(self, size: int) -> bool:
        with self._lock:
            self.count += size
            cut = bool(self.cut_at) and self.count >= self.cut_at[0]
            if cut:
                self.cut_at.pop(0)
                self.cuts += 1
            hold = self.hold_at is not None and self.count >= self.hold_at
        if hold:
            self.held.set()
            self._released.wait()
        return cut


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(host: str) -> Iterator[Proxy]:
    proxy = Proxy(host)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
