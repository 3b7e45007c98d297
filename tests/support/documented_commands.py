"""The commands in the shell blocks of README.md and the documentation, as a reader would type them.

A block of a page runs with all others of the page, in their order. Comments before a block, invisible to readers, say
otherwise::

    <!-- before: jupyter tpu create my-node … -->     a command that runs first
    <!-- not run: REASON -->                          nothing of the block runs
    <!-- not run (pip, gcloud): REASON -->            lines that begin so do not run
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/trc.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]

_PIECE = re.compile(
    r"^ *<!-- before: (?P<before>.+?) -->$"
    r"|^ *<!-- not run(?: \((?P<some>[^)]+)\))?: (?P<reason>.+?) -->$"
    r"|^ *```bash\n(?P<block>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each command of a page that a test runs, `export` included."""
    skipped: tuple[str, ...] = ()
    for piece in _PIECE.finditer(text):
        if piece["before"]:
            yield shlex.split(piece["before"])
        elif piece["reason"]:
            skipped = tuple(start.strip() for start in (piece["some"] or "").split(","))
        else:
            yield from _lines(piece["block"], skipped)
            skipped = ()


def _lines(block: str, skipped: tuple[str, ...]) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and not line.strip().startswith(skipped or ("\0",)):
            yield words
