"""Small files of the state folder that are made once and then kept: keys, tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_tpu.files import write_whole

TOKEN_FILE_VARIABLE = "JUPYTER_TPU_EMULATOR_TOKEN_FILE"


def kept_file(path: Path, make: Callable[[], bytes]) -> bytes:
    """What the file holds; what `make` gives, written down for its owner's eyes only, where there is none.

    It is there whole or not at all: a crash or a full disk leaves at most a draft, and an empty file counts as none.

    Raises:
        OSError: it can be neither read nor written; nothing is left of the attempt.
    """
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, make())
    return path.read_bytes()
