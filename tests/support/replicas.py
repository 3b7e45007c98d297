"""Replicas as processes, and a client that sends one request after the other."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_tpu.wire.file_messages import OWN_FOLDER, MessageDecoder, encode_message

ARGV = [sys.executable, "-X", "utf8", "-m", "jupyter_tpu.agent.files.replica"]


class Replica:
    """The replica of a folder."""

    def __init__(self, folder: Path, before: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*before, *ARGV, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._decoder = MessageDecoder()

    def __enter__(self) -> Replica:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(60)
        self._process.stdout.close()  # type: ignore[union-attr]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def reply(self) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdout is not None
        while data := self._process.stdout.read(1 << 16):
            for message in self._decoder.feed(data):
                return message
        raise EOFError

    def ask(self, op: str, data: bytes = b"", **request: Any) -> dict[str, Any]:
        self.send(encode_message({"op": op, **request}, data))
        reply, self.data = self.reply()
        return reply

    def scan(self, since: int = 0, rules: Any = (), most_bytes: int = 0) -> dict[str, Any]:
        """Scan, and return what changed since a revision, by path."""
        reply = self.ask("scan", rules=list(rules), most_bytes=most_bytes)
        assert "error" not in reply, reply
        rows = {}
        count = self.ask("rows", since=since)["count"]
        while count:
            rows.update(json.loads(zlib.decompress(self.data)))
            count = self.ask("rows")["count"]
        self.revision = reply["revision"]
        return rows

    def apply(self, *action: Any) -> str:
        reasons = self.ask("apply", actions=[action])["reasons"]
        assert len(reasons) == 1
        return str(reasons[0])

    def write(self, content: bytes) -> list[Any]:
        """Send a content; return the entry of a file with it."""
        entry = file(content)
        assert self.ask("write_many", content, files=[[entry[1], len(content)]]) == {}
        return entry


def file(content: bytes, *, is_executable: bool = False) -> list[Any]:
    """The entry of a file."""
    return ["f", hashlib.sha256(content).hexdigest(), len(content), is_executable]


def visible(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if each.name != OWN_FOLDER)


def tree(folder: Path, prefix: str = "") -> dict[str, tuple[str, str, bool]]:
    """What is in a folder: by path the kind, the content and whether it is executable."""
    found = {}
    for each in visible(folder):
        path = f"{prefix}{each.name}"
        if each.is_symlink():
            found[path] = ("l", str(each.readlink()), False)
        elif each.is_dir():
            found.update({path: ("d", "", False), **tree(each, f"{path}/")})
        else:
            found[path] = ("f", hashlib.sha256(each.read_bytes()).hexdigest(), bool(each.stat().st_mode & 0o100))
    return found
