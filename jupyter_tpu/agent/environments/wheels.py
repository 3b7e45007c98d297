"""Receive wheels or a Python on a worker without access to a package index; interrupted transfers resume.

Clients send this program on standard input, as for `bootstrap`, so it is a single file that needs only the standard
library. First, the program describes the worker and its existing files. For each missing file, the client sends a JSON
line ``{"name", "size", "sha256"}``, receives the response ``{"offset"}`` and sends the file from that offset. All
output is in JSON lines.
"""

import hashlib
import json
import platform
import shutil
import sys
from pathlib import Path

# Number of bytes to read at once. Bounds memory.
PIECE_BYTES = 256 * 1024
FOLDER = Path.home() / ".jupyter-tpu" / "wheels"


def send(**content: object) -> None:
    """Send one JSON line to the client."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def hello() -> None:
    """Describe the worker and its files, so that the client sends only suitable files that the worker lacks."""
    uv = [Path.home() / ".local/bin/uv", Path.home() / ".cargo/bin/uv", FOLDER.parent / "uv/bin/uv"]
    send(
        python="{}.{}".format(*sys.version_info[:2]),
        machine=platform.machine(),
        has_uv=shutil.which("uv") is not None or any(map(Path.is_file, uv)),
        has={path.name: path.stat().st_size for path in FOLDER.iterdir() if path.suffix != ".part"},
        free_bytes=shutil.disk_usage(FOLDER).free,
    )


def take(name: str, size: int, sha256: str) -> None:
    """Receive the remaining part of one file, and rename the file once it is complete and its hash matches."""
    part = FOLDER / (name + ".part")
    offset = part.stat().st_size if part.is_file() and part.stat().st_size <= size else 0
    send(offset=offset)
    with part.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        while file.tell() < size:
            piece = sys.stdin.buffer.read(min(PIECE_BYTES, size - file.tell()))
            if not piece:  # the file is incomplete: keep it for the next attempt
                sys.exit(1)
            file.write(piece)
    if hashlib.sha256(part.read_bytes()).hexdigest() == sha256:
        part.replace(FOLDER / name)
        send(taken=name)
    else:
        part.unlink()
        send(spoiled=name)


def main() -> None:
    """Receive files until the end of standard input."""
    for folder in (FOLDER.parent, FOLDER):
        folder.mkdir(mode=0o700, exist_ok=True)
    hello()
    for line in sys.stdin.buffer:
        take(**json.loads(line))


if __name__ == "__main__":
    main()
