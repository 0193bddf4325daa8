"""A small server that says what it was asked."""

from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Server:
    """Answers each path with what it was given, else with 404."""

    answers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    url: str = ""
    ports: set[int] = field(default_factory=set)

    async def handle(self, request: web.Request) -> web.Response:
        self.ports.add(_port(request))
        self.requests.append((request.path, dict(request.headers), await request.read()))
        text = self.answers.get(request.path)
        if request.path in self.broken:
            return web.Response(status=500)
        return web.Response(status=404) if text is None else web.Response(text=text)


def _port(request: web.Request) -> int:
    """That of the client's end: one for each connection."""
    assert request.transport is not None
    port: int = request.transport.get_extra_info("peername")[1]
    return port
