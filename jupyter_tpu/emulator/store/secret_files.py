"""Small files of the state folder that are created once and read ever after: keys, tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jupyter_tpu.files import write_whole

TOKEN_FILE_VARIABLE = "JUPYTER_TPU_EMULATOR_TOKEN_FILE"


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return what the file holds; create it with what `make` gives, readable by its owner only, if there is none.

    It is written whole or not at all: a crash or a full disk leaves at most a draft, and an empty file counts as none.

    Raises:
        OSError: it can be neither read nor written; nothing is left of the attempt.
    """
    # an empty file is left by a crash of an older emulator, which did not write whole files
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, make())
    return path.read_bytes()
