"""How the file system of the folder compares names."""

from __future__ import annotations

import os
import secrets

from jupyter_tpu.agent.files.root import Root

_COMPOSED, _DECOMPOSED = "\u00e9", "e\u0301"


def is_case_insensitive(root: Root) -> bool:
    """Whether names that differ only in the case of letters are one name."""
    return _is_same(root, "case-a", "CASE-A")


def normalizes(root: Root) -> bool:
    """Whether names that look alike but consist of other Unicode characters are one name."""
    return _is_same(root, _COMPOSED, _DECOMPOSED)


def _is_same(root: Root, one: str, other: str) -> bool:
    folder = f"facts-{secrets.token_hex(4)}"
    os.mkdir(folder, 0o700, dir_fd=root.own)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.own)
    try:
        os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=descriptor))
        try:
            os.stat(other, dir_fd=descriptor)
        except FileNotFoundError:
            return False
        else:
            return True
        finally:
            os.unlink(one, dir_fd=descriptor)
    finally:
        os.close(descriptor)
        os.rmdir(folder, dir_fd=root.own)
