"""Small images and sounds, made with the standard library alone, no two alike."""
# ruff: noqa: S311  nothing here is a secret

import base64
import io
import random
import struct
import wave
import zlib

SAMPLE_RATE = 16000


def png(width: int, height: int) -> bytes:
    """Stripes of random colours. A row is made once: it is the size that costs an encoder time."""
    row = b"\0" + random.randbytes(3 * width)
    compressor = zlib.compressobj(1)
    rows = b"".join(compressor.compress(row) for _ in range(height)) + compressor.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green, blue
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_url(width: int, height: int) -> str:
    return "data:image/png;base64," + base64.b64encode(png(width, height)).decode()


def wav(seconds: float) -> bytes:
    """Quiet noise, 16 bit, one channel, 16 kHz."""
    samples = int(seconds * SAMPLE_RATE)
    # 0 to 255 of 32767: hardly to be heard.
    frames = b"".join(struct.pack("<h", loudness) for loudness in random.randbytes(samples))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(SAMPLE_RATE)
        sound.writeframes(frames)
    return file.getvalue()
