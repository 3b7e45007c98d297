"""The packages that we install on workers ourselves, to the version and with the hashes of their files.

`make worker-lock` writes them down for each Python and platform that a worker has. What users require stays as they
wrote it. Where an index has other files, `JUPYTER_TPU_WORKER_LOCK` names a lock of its owner's, on the worker and where
wheels are sent from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from jupyter_tpu.errors import EnvironmentFailed

VARIABLE = "JUPYTER_TPU_WORKER_LOCK"
UV = "uv"
AGENT_NEEDS = ("pyzmq>=25", "psutil>=5.9")
KERNEL_NEEDS = ("ipykernel>=6.29",)
"""Includes what the agent needs."""


@cache
def lock_text() -> str:
    """All of it, as a requirements file.

    Raises:
        EnvironmentFailed: the file that the variable names cannot be read.
    """
    own = os.environ.get(VARIABLE, "")
    try:
        return (Path(own) if own else files("jupyter_tpu") / "agent" / "lock.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailed(f"The lock {own} cannot be read: {error}.", hint=f"Correct {VARIABLE}.") from error


def locked(needs: Sequence[str]) -> str:
    """The part of the lock for ``uv``, for the agent's needs or for the kernels'; those bring most of it along."""
    named = {_name(need) for need in needs}
    is_all = named == set(map(_name, KERNEL_NEEDS))
    return "\n".join(block for block in _blocks() if (_name(block) in named) or (is_all and _name(block) != UV))


def with_hashes(lines: Iterable[str]) -> Iterator[str]:
    """Pinned requirements, those that are in the lock with their hashes."""
    hashes = {block.partition(" ")[0]: block[block.index("--hash") :] for block in _blocks()}
    return (f"{line} {hashes[line]}" if line in hashes else line for line in lines)


@contextmanager
def requirements_file(text: str) -> Iterator[Path]:
    """A file for uv or pip to read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lock.txt"
        path.write_text(text, encoding="utf-8")
        yield path


@cache
def _blocks() -> tuple[str, ...]:
    """``NAME==VERSION ; MARKER --hash=… --hash=…`` for each package, some twice with other markers."""
    return tuple(line for line in lock_text().replace("\\\n", " ").splitlines() if line[:1].isalnum())


def _name(requirement: str) -> str:
    return requirement.partition("=")[0].rstrip("><")
