"""A Hugging Face hub of directories: `ROOT/<org>/<name>/` is a repository at revision main.

It speaks what `huggingface_hub` and Transformers need to download: model information with
digests, and files under /resolve/. The commit changes when the files do. With a token the
repositories are private. Gated ones show their information to everybody and their files to nobody,
as to an account that has not accepted the terms.
"""

from __future__ import annotations

import hashlib
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

from support.file_server import FileHandler, FileServer

LFS_SUFFIXES = (".safetensors", ".bin", ".gguf", ".pt")


class HubServer(FileServer):
    gated = False
    # Base URL of the place that LFS files are redirected to, as the hub does; None: the same host.
    cdn: str | None = None

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        return HubHandler

    def files(self, repository: str) -> list[Path]:
        return sorted(path for path in (self.root / repository).rglob("*") if path.is_file())

    def commit(self, repository: str) -> str:
        listed = [(str(path), self.digest(path, "sha256")) for path in self.files(repository)]
        return hashlib.sha1(json.dumps(listed).encode()).hexdigest()


class HubHandler(FileHandler):
    server: HubServer

    def answer(self, path: str) -> None:
        parts = path.strip("/").split("/")
        if path.startswith("/cdn/"):
            self.send_file(self.server.root / path.removeprefix("/cdn/"), {})
        elif parts[:2] == ["api", "models"] and parts[4:5] == ["tree"]:
            self._tree("/".join(parts[2:4]), parts[5])
        elif parts[:2] == ["api", "models"] and len(parts) in (4, 6):
            self._information("/".join(parts[2:4]), parts[5] if len(parts) == 6 else "main")
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self._refuse(404, "EntryNotFound")

    def _information(self, repository: str, revision: str) -> None:
        if not self._may_see(repository, revision):
            return
        folder = self.server.root / repository
        siblings = [self._sibling(folder, path) for path in self.server.files(repository)]
        document = {
            "id": repository,
            "sha": self.server.commit(repository),
            "gated": "manual" if self.server.gated else False,
            "siblings": siblings,
        }
        body = json.dumps(document).encode()
        self.send_body(200, body, {"Content-Type": "application/json"})

    def _tree(self, repository: str, revision: str) -> None:
        if not self._may_see(repository, revision):
            return
        folder = self.server.root / repository
        entries = []
        for path in self.server.files(repository):
            found = self._sibling(folder, path)
            entry = {"type": "file", "path": found["rfilename"], "oid": found["blobId"]}
            entry["size"] = found["size"]
            if isinstance(lfs := found.get("lfs"), dict):
                entry["lfs"] = lfs | {"oid": lfs["sha256"]}
            entries.append(entry)
        self.send_body(200, json.dumps(entries).encode(), {"Content-Type": "application/json"})

    def _sibling(self, folder: Path, path: Path) -> dict[str, object]:
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        found: dict[str, object] = {
            "rfilename": name,
            "size": size,
            "blobId": self.server.digest(path, "git"),
        }
        if name.endswith(LFS_SUFFIXES):
            found["lfs"] = {
                "sha256": self.server.digest(path, "sha256"),
                "size": size,
                "pointerSize": 135,
            }
        return found

    def _resolve(self, repository: str, revision: str, name: str) -> None:
        if not self._may_see(repository, revision):
            return
        if self.server.gated:
            self._refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            return
        path = self.server.root / repository / name
        if not path.is_file():
            self._refuse(404, "EntryNotFound")
            return
        commit = self.server.commit(repository)
        if not name.endswith(LFS_SUFFIXES):
            tag = f'"{self.server.digest(path, "git")}"'
            self.send_file(path, {"ETag": tag, "X-Repo-Commit": commit})
            return
        place = f"{self.server.cdn or ''}/cdn/{quote(f'{repository}/{name}')}"
        linked = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{self.server.digest(path, "sha256")}"',
            "X-Linked-Size": str(path.stat().st_size),
            "Location": f"{place}?Signature=s3cr3t",
        }
        self.send_body(302, b"", linked)

    def _may_see(self, repository: str, revision: str) -> bool:
        sent = self.headers.get("Authorization")
        wanted = f"Bearer {self.server.token}"
        if sent and self.server.token and sent != wanted:
            message = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self.refuse(401, message)
            return False
        if (self.server.token and sent != wanted) or not (self.server.root / repository).is_dir():
            self._refuse(404 if sent else 401, "RepoNotFound")
            return False
        if revision not in ("main", self.server.commit(repository)):
            self._refuse(404, "RevisionNotFound")
            return False
        return True

    def _refuse(self, status: int, code: str) -> None:
        self.refuse(status, {"X-Error-Code": code, "X-Error-Message": code})
