"""Self-signed certificates for 127.0.0.1."""

import subprocess
from pathlib import Path


def make_certificates(folder: Path, *names: str) -> None:
    for name in names:
        subprocess.run(
            f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} "
            f"-addext subjectAltName=IP:127.0.0.1 "
            f"-keyout {folder}/{name}.key -out {folder}/{name}.crt".split(),
            check=True,
            capture_output=True,
        )
