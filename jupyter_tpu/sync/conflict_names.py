"""The name of the second version of a file that was changed on both sides."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

_MOST_BYTES = 255  # the longest name on ext4, APFS and NTFS


@dataclass(frozen=True, slots=True)
class ConflictNames:
    """Names such as ``train (from my-node, 14:02).py``.

    Args:
        node: the node on which the version was made; its letters are legal in file names.
        time: when the conflict was found, by the clock of this machine, without characters that a side forbids.
    """

    node: str
    time: str

    def name(self, name: str, is_taken: Container[str]) -> str:
        """Return the name for a version of `name`; `is_taken` contains the names that it must not have."""
        dot = name.rfind(".")
        stem, extension = (name[:dot], name[dot:]) if dot > 0 else (name, "")  # `.env` has no extension
        stem = re.sub(rf" \(from {re.escape(self.node)}, [^()]*\)$", "", stem)  # of a conflict in a conflict file
        number = 1
        while True:
            suffix = f" (from {self.node}, {self.time}{f', {number}' if number > 1 else ''}){extension}"
            found = _shortened(stem, _MOST_BYTES - _bytes(suffix)) + suffix
            if found not in is_taken:
                return found
            number += 1


def _shortened(stem: str, most_bytes: int) -> str:
    while stem and _bytes(stem) > most_bytes:
        stem = stem[:-1]
    return stem


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
