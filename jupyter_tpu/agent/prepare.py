"""The second program on a worker: build the environments, and start a supervisor if none is running.

This program is part of the agent's code. It writes JSON lines to standard output: ``{"phase", "message", "fraction"}``
for progress, and finally ``{"ready": {...}}`` or ``{"failed": {...}}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from jupyter_tpu.agent.environments.venv import Environments
from jupyter_tpu.agent.paths import Home, is_listening, listen, try_lock
from jupyter_tpu.errors import AgentBroken, TpuError
from jupyter_tpu.files import close_new_files, users_umask

# Maximum size of a log. At most two logs are kept: the current one and the previous one.
_LOG_BYTES = 4 * 1024 * 1024
# Bytes of the log to show in an error message: about the last 30 lines.
_TAIL_BYTES = 3000
# How long to wait until a removed socket is back. The agent checks its folder every second, and restarting a crashed
# agent takes a few seconds.
_RESTORED_WITHIN_S = 20.0
_SUPERVISE = "supervise"


def main(code: Path, request: Mapping[str, Any]) -> None:
    """Prepare the worker for a client and report the result on standard output.

    Args:
        code: the folder of the agent's code.
        request: the client's line; see `bootstrap`.
    """
    close_new_files()
    try:
        _write(ready=prepare(code, Home.of_user(), request))
    except TpuError as error:
        _write(failed=error.to_json())


def prepare(code: Path, home: Home, request: Mapping[str, Any]) -> dict[str, Any]:
    """Ensure that an agent is running and kernels have a Python; return the paths of the agent's socket and the Python.

    Raises:
        TpuError: the worker can't be prepared.
    """
    home.make()
    environments = Environments(home, _report)
    python = environments.kernel_python(str(request.get("python", "")))
    lock = _lock_of_no_agent(home)
    if lock is not None:
        _start_supervisor(code, home, environments.agent_python(), python, lock)
    ready = {"socket": str(home.socket), "python": python}
    return {**ready, "log": _tail(home.log)} if request.get("explain") else ready


def _lock_of_no_agent(home: Home) -> int | None:
    """Acquire and return the supervisor's lock if no agent is running; otherwise, return None.

    A free lock doesn't prove that no agent is running, because the folder may have been removed together with the held
    lock. The running agent restores the lock within a second (`home_watch`); a second agent would write to the same
    records.
    """
    until = time.monotonic() + _RESTORED_WITHIN_S
    while (lock := try_lock(home.lock)) is not None and _is_supervised(home):
        os.close(lock)
        if is_listening(home.socket):
            return None
        if time.monotonic() > until:
            raise AgentBroken(
                f"The agent's folder {home.root} was removed from the worker, and the agent did not restore it.",
                hint="Check the node with `jupyter tpu ssh`, or restart it; a restart ends its kernels.",
            )
        time.sleep(0.1)
    return lock


def _is_supervised(home: Home) -> bool:
    """Whether one of this user's processes is this folder's supervisor or agent, even if the lock is missing."""
    root, kinds = os.fsencode(home.root), {_SUPERVISE.encode(), b"agent"}
    return any(root in words and kinds & {*words} for words in _our_commands())


def _our_commands() -> Iterator[list[bytes]]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has exited in the meantime
            if process.stat().st_uid == os.getuid():
                yield (process / "cmdline").read_bytes().split(b"\0")


def _start_supervisor(code: Path, home: Home, agent_python: str, kernel_python: str, lock: int) -> None:
    """Start a supervisor, detached from this connection, that inherits the lock and the listening socket.

    Clients can connect immediately, because the socket is listening before the agent starts.
    """
    _report("agent", "Starting the agent", 0.9)
    listener = listen(home.socket)
    descriptors = (listener.fileno(), lock)
    argv = [agent_python, "-I", str(code), _SUPERVISE, *map(str, descriptors), str(home.root), kernel_python]
    with _open_log(home.log) as log:
        _run_detached(argv, home, log, descriptors)
    listener.close()
    os.close(lock)


def _run_detached(argv: list[str], home: Home, log: IO[bytes], descriptors: tuple[int, ...]) -> None:
    try:
        subprocess.Popen(
            argv,
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=descriptors,
            start_new_session=True,
            umask=users_umask(),
        )
    except OSError as error:
        raise AgentBroken(
            f"The agent's Python {argv[0]} on the worker cannot be run.",
            hint=f"Remove {home.environments} on the worker; it will be rebuilt.",
            raw=str(error),
        ) from error


def _open_log(path: Path) -> IO[bytes]:
    if path.is_file() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".old.log"))
    return path.open("ab")


def _tail(path: Path) -> str:
    return path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace") if path.is_file() else ""


def _report(phase: str, message: str, fraction: float) -> None:
    _write(phase=phase, message=message, fraction=fraction)


def _write(**content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()
