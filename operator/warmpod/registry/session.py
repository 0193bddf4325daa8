"""How registries are connected to."""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL


def new_session() -> aiohttp.ClientSession:
    """Content comes as it is stored, because digests are of that."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        headers={"User-Agent": "warmpod", "Accept-Encoding": "identity"},
    )


def proxy_for(url: URL) -> str | None:
    """From the environment, as for other container tools. (aiohttp's own reading of it takes in
    ~/.netrc too, which does not go with an Authorization header.)"""
    if url.host is None or proxy_bypass(url.host):
        return None
    return getproxies().get(url.scheme)
