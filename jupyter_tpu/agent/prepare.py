"""Second step on the worker, from the agent's own code: environments, then a supervisor if none lives.

Says everything as JSON lines on standard output: ``{"phase", "message", "fraction"}`` while it works, and at the end
``{"ready": {...}}`` or ``{"failed": {...}}``.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from jupyter_tpu.agent.environment import Environments
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import AgentBroken, TpuError

_LOG_BYTES = 4 * 1024 * 1024
_TAIL_BYTES = 3000


def main(code: Path, request: Mapping[str, Any]) -> None:
    """Prepare the worker for a client."""
    try:
        _say(ready=prepare(code, Home.of_user(), request))
    except TpuError as error:
        _say(failed=error.to_json())


def prepare(code: Path, home: Home, request: Mapping[str, Any]) -> dict[str, Any]:
    """Make sure that an agent is kept, and that kernels have a Python; answers with where they are."""
    home.make()
    environments = Environments(home, _report)
    python = environments.kernel_python(str(request.get("python", "")))
    lock = _take_lock(home)
    if lock is not None:
        _start_supervisor(code, home, environments.agent_python(), python, lock)
    ready = {"socket": str(home.socket), "python": python}
    return {**ready, "log": _tail(home.log)} if request.get("explain") else ready


def _take_lock(home: Home) -> int | None:
    """The lock's descriptor, or None when a supervisor holds it."""
    lock = os.open(home.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _start_supervisor(code: Path, home: Home, agent_python: str, kernel_python: str, lock: int) -> None:
    """Start it in a session of its own; the lock and the listening socket pass to it, so it is ready at once."""
    _report("agent", "Starting the agent", 0.9)
    listener = _listen(home.socket)
    descriptors = (listener.fileno(), lock)
    argv = [agent_python, "-I", str(code), "supervise", *map(str, descriptors), str(home.root), kernel_python]
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
        )
    except OSError as error:
        raise AgentBroken(
            f"The agent's Python {argv[0]} on the worker cannot be run.",
            hint=f"Remove {home.environments} on the worker; it is made anew.",
            raw=str(error),
        ) from error


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


def _open_log(path: Path) -> IO[bytes]:
    if path.is_file() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".old.log"))
    return path.open("ab")


def _tail(path: Path) -> str:
    return path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace") if path.is_file() else ""


def _report(phase: str, message: str, fraction: float) -> None:
    _say(phase=phase, message=message, fraction=fraction)


def _say(**content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()
