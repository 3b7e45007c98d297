"""Our files are closed to other users; programs that we start for the user get the umask that we were started with."""

from __future__ import annotations

import os

_users = -1


def close_new_files() -> None:
    """Close every file that this process makes from now on. Called first in a program, which may run it twice."""
    global _users
    if _users < 0:
        _users = os.umask(0o077)


def users_umask() -> int:
    """For `subprocess.Popen`: what it was before; -1, which leaves it, where it was not changed."""
    return _users
