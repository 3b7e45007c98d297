"""The workers on which a cell runs, and the names of workers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_tpu.errors import BadInput, Text

_MAGIC = re.compile(r"\s*%%(workers?)(?![\w?])([^\n]*)(?:\n|\Z)")
_ONLY_SHOWS = re.compile(r"\s*%tpu(?:[ \t][^\n]*)?\s*")
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The workers on which a cell runs.

    Attributes:
        workers: the numbers of the workers, in ascending order.
        code: the cell without its line ``%%workers``.
        is_partial: whether the cell runs only on some workers. A collective operation in it would wait forever for the
            others.
    """

    workers: tuple[int, ...]
    code: str
    is_partial: bool = False


def parse_cell(code: str, count: int) -> Target:
    """Return the workers on which a cell runs: those in its ``%%worker(s)`` line, or else all `count` workers.

    A cell that is only a ``%tpu`` line runs on worker 0, even while the other workers are busy.

    Raises:
        BadInput: the line names no worker or a worker that does not exist, or no code follows the line.
    """
    line = _MAGIC.match(code)
    if line is None:
        return Target(workers=(0,) if _ONLY_SHOWS.fullmatch(code) else tuple(range(count)), code=code)
    return target_of(line[1], line[2].strip(), code[line.end() :], count)


def target_of(magic: str, line: str, body: str, count: int) -> Target:
    """Return the workers on which a cell magic runs its body.

    `magic` is ``worker`` or ``workers``, and `line` contains its arguments.

    Raises:
        BadInput: see `parse_cell`.
    """
    workers = _numbers(line)
    example = "%%worker 0" if magic == "worker" else f"%%workers 0-{count - 1}"
    hint = Text(
        "This slice has workers 0 to {last}. Start the cell with, for example, `{example}`, and put the code below it.",
        last=count - 1,
        example=example,
    )
    if count == 1:
        hint = Text("Remove the line that begins with %%: this kernel runs only on worker 0.")
    if workers is None or (magic == "worker" and len(workers) != 1):
        raise BadInput(Text("Invalid choice of workers: “%%{magic} {line}”.", magic=magic, line=line[:60]), hint=hint)
    unknown = [each for each in workers if each >= count]
    if unknown:
        raise BadInput(Text("There is no worker {number}.", number=unknown[0]), hint=hint)
    if not body.strip():
        raise BadInput(Text("The cell has no code below %%{magic}.", magic=magic), hint=hint)
    return Target(workers=tuple(workers), code=body, is_partial=len(workers) < count)


def _numbers(line: str) -> list[int] | None:
    """Return the numbers in a list such as ``0,2-3``, sorted, or None if the text is not such a list."""
    numbers: set[int] = set()
    for part in line.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        first = int(match[1])
        last = int(match[2] or first)
        if last < first:
            return None
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def names_of(workers: Iterable[int]) -> Text:
    """Return ``worker 2`` or ``workers 0, 2-5``."""
    numbers = sorted(workers)
    if len(numbers) == 1:
        return Text("worker {number}", number=numbers[0])
    return Text("workers {numbers}", numbers=", ".join(_ranges(numbers)))


def _ranges(numbers: list[int]) -> Iterable[str]:
    start = before = numbers[0]
    for each in [*numbers[1:], -1]:
        if each != before + 1:
            yield str(start) if start == before else f"{start}{'-' if before > start + 1 else ', '}{before}"
            start = each
        before = each
