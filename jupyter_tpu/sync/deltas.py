"""Find what of a changed file is already in its old version.

Blocks are compared at the same distance from the start and at the same distance from the end, which finds an appended
file, changes in place, and a region that was inserted or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Blocks(NamedTuple):
    """A file's size, and the digests of its whole blocks, counted from its start and from its end."""

    size: int
    block: int
    head: Sequence[str]
    tail: Sequence[str]


class Piece(NamedTuple):
    """A piece of the new version; `old_start` is where the old version has it, or None."""

    start: int
    length: int
    old_start: int | None


def pieces(old: Blocks, new: Blocks) -> list[Piece]:
    """Return the pieces of the new version in order; neighbours are joined."""
    if old.block != new.block:
        return [Piece(0, new.size, None)]
    found: list[Piece] = []
    for piece in _pieces(old, new):
        last = found[-1] if found else None
        if last is not None and _continues(last, piece):
            found[-1] = last._replace(length=last.length + piece.length)
        else:
            found.append(piece)
    return found


def _continues(last: Piece, piece: Piece) -> bool:
    if last.old_start is None or piece.old_start is None:
        return last.old_start is piece.old_start
    return last.old_start + last.length == piece.old_start


def _pieces(old: Blocks, new: Blocks) -> Iterator[Piece]:
    size, block = new.size, new.block
    head = {number * block for number, (one, other) in enumerate(zip(old.head, new.head, strict=False)) if one == other}
    tail = {
        size - (number + 1) * block: old.size - (number + 1) * block
        for number, (one, other) in enumerate(zip(old.tail, new.tail, strict=False))
        if one == other
    }
    starts = sorted({*head, *tail, size})
    position = 0
    while position < size:
        if position in head:
            yield Piece(position, block, position)
            position += block
        elif position in tail:
            yield Piece(position, block, tail[position])
            position += block
        else:
            following = next(start for start in starts if start > position)
            yield Piece(position, following - position, None)
            position = following
