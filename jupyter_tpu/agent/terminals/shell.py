"""Start the user's login shell on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import pwd
import struct
import subprocess
import sys
import termios
from pathlib import Path

from jupyter_tpu.files import users_umask

# A session leader must take its terminal itself, but preexec_fn would run Python code in a fork of a process with
# threads. A login shell is recognized by a name that starts with a hyphen.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], ['-' + os.path.basename(sys.argv[1])])"
)
_LARGEST_SIZE = 0xFFFF


def start_shell(rows: int, columns: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start the login shell in the home folder; return its process and the descriptor of our end of its terminal.

    Raises:
        OSError: there are no more pseudo-terminals or processes.
    """
    ours, its = pty.openpty()
    try:
        resize(ours, rows, columns)
        os.set_blocking(ours, False)
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _TAKE_TERMINAL, _login_shell()],
            env=_environment(),
            cwd=Path.home(),
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            umask=users_umask(),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    return child, ours


def _login_shell() -> str:
    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a user of a directory service that doesn't respond
        shell = ""
    return shell if os.access(shell, os.X_OK) else "/bin/sh"


def _environment() -> dict[str, str]:
    """Return the agent's environment without its own variables, as for a terminal of JupyterLab."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_TPU_")}
    return {**own, "SHELL": _login_shell(), "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal in characters; sizes out of range are ignored."""
    if 0 < rows <= _LARGEST_SIZE and 0 < columns <= _LARGEST_SIZE:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def foreground_command(terminal: int, shell_pid: int) -> str:
    """Return the command that runs in the foreground of a terminal; empty if the shell waits for a command."""
    try:
        # Python has `os.tcgetpgrp`, but Linux allows it only on a process's own terminal.
        group = struct.unpack("i", fcntl.ioctl(terminal, termios.TIOCGPGRP, bytes(4)))[0]
        if group in (0, shell_pid):
            return ""
        return Path(f"/proc/{group}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # the shell or the command has just exited
        return ""
