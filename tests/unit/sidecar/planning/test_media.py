"""Made images and sounds are what they say, read back by other means than they were made with."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib

from warmpod.sidecar.planning.media import png_url, wav


def test_png() -> None:
    url = png_url(300, 20)
    data = base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (
            zlib.crc32(kind + content),
        )
        chunks.append((kind, content))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    assert chunks[0][1] == struct.pack(">IIBBBBB", 300, 20, 8, 2, 0, 0, 0)
    assert len(zlib.decompress(chunks[1][1])) == 20 * (1 + 3 * 300)
    assert png_url(300, 20) != url


def test_wav() -> None:
    with wave.open(io.BytesIO(wav(0.5))) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 2, 16000)
        assert sound.getnframes() == 8000
    assert wav(0.1) != wav(0.1)
