"""Messages between the client of a synced folder and the program that serves one copy of it, the *replica*.

A message has a header of 8 bytes, ``!II`` = length of the JSON object, length of the data, and then both. The client
sends requests, and the replica answers each of them in turn. Both sides check all that they receive: a client must not
be able to reach files outside of the folder, nor a replica to make its client write there.

An entry is JSON too: None for nothing, ``["d"]`` for a folder, ``["f", digest, size, is_executable]`` for a file,
``["l", target]`` for a symbolic link, and ``["b", reason]`` for what can't be synced.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_tpu.wire.frames import ProtocolError, json_object

_HEADER = struct.Struct("!II")
JSON_BYTES = 1024 * 1024
DATA_BYTES = 1024 * 1024
"""Maximum size of a message's data: a piece of a large file, or several small files."""

OWN_FOLDER = ".jupyter-tpu"
"""The folder in each synced folder in which a replica keeps its index and what it replaced; it is never synced."""

_MOST_PATH_BYTES = 4000  # Linux accepts paths of 4,095 bytes
_MOST_NAME_BYTES = 255
_LARGEST_FILE = 2**62
_DIGEST = re.compile(r"[0-9a-f]{64}")


def encode_message(content: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Return a message as bytes."""
    text = json.dumps(content, separators=(",", ":")).encode()
    if len(text) > JSON_BYTES or len(data) > DATA_BYTES:
        raise ValueError(f"a message of {len(text)} and {len(data)} bytes is too large")
    return _HEADER.pack(len(text), len(data)) + text + data


class MessageDecoder:
    """A decoder of messages from bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the messages that `data` completes, each as its JSON object and its data.

        Raises:
            ProtocolError: the peer does not use this protocol; the decoder can't be used afterwards.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            text_bytes, data_bytes = _HEADER.unpack_from(self._buffer)
            if text_bytes > JSON_BYTES or data_bytes > DATA_BYTES:
                raise ProtocolError(f"a message of {text_bytes} and {data_bytes} bytes is larger than agreed")
            start, end = _HEADER.size + text_bytes, _HEADER.size + text_bytes + data_bytes
            if len(self._buffer) < end:
                return
            content = json_object(bytes(self._buffer[_HEADER.size : start]))
            found = bytes(self._buffer[start:end])
            del self._buffer[:end]
            yield content, found


def checked_path(path: object) -> str:
    """Return a path in the folder, such as ``src/train.py``.

    Raises:
        ProtocolError: it is no such path, or could lead out of the folder.
    """
    if not isinstance(path, str) or not path or len(path) > _MOST_PATH_BYTES:
        raise ProtocolError(f"not a path: {str(path)[:60]!r}")
    for name in path.split("/"):
        if name in ("", ".", "..", OWN_FOLDER) or "\0" in name or _is_long(name):
            raise ProtocolError(f"not a path in the folder: {path[:60]!r}")
    return path


def _is_long(name: str) -> bool:
    if len(name) * 4 <= _MOST_NAME_BYTES:
        return False
    try:
        return len(name.encode("utf-8", "surrogateescape")) > _MOST_NAME_BYTES
    except UnicodeEncodeError:  # half of a character that no file system returns
        return True


def checked_digest(digest: object) -> str:
    """Return a SHA-256 in hexadecimal; raise `ProtocolError` for anything else."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ProtocolError(f"not a digest: {str(digest)[:80]!r}")
    return digest


def checked_number(number: object, largest: int = _LARGEST_FILE) -> int:
    """Return a whole number from 0 to `largest`; raise `ProtocolError` for anything else."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= largest:
        raise ProtocolError(f"not a number from 0 to {largest}: {str(number)[:60]!r}")
    return number


def checked_entry(path: str, entry: object) -> list[Any] | None:
    """Return the entry at `path` as the module describes it.

    Raises:
        ProtocolError: it is no entry, or a link that leads out of the folder.
    """
    match entry:
        case None:
            return None
        case ["d"]:
            return ["d"]
        case ["f", digest, size, bool(is_executable)]:
            return ["f", checked_digest(digest), checked_number(size), is_executable]
        case ["l", str(target)] if len(target) <= _MOST_PATH_BYTES and stays_inside(path, target):
            return ["l", target]
        case ["b", str(reason)] if len(reason) <= _MOST_NAME_BYTES:
            return ["b", reason]
    raise ProtocolError(f"not an entry: {str(entry)[:80]!r}")


def stays_inside(path: str, target: str) -> bool:
    """Whether a symbolic link at `path` with this target leads to a path in the folder."""
    if not target or target.startswith("/") or "\0" in target:
        return False
    depth = path.count("/")
    for name in target.split("/"):
        depth += -1 if name == ".." else 0 if name in ("", ".") else 1
        if depth < 0 or name == OWN_FOLDER:
            return False
    return True
