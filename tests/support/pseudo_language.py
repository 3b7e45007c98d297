"""A made-up language of full-width letters: what is still written in plain ones can't be translated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import catalogue

_WIDE = {ord(each): ord(each) + 0xFEE0 for each in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_PLACEHOLDER = re.compile(r"(%\(\w+\)[rs]|%[rs]|\{\w+\})")


def write_language(folder: Path) -> dict[str, str]:
    """Write the catalogue of the language into a folder, and return the variables that choose it."""
    texts = catalogue.template()
    for message in texts:
        is_counted = isinstance(message.id, tuple | list)
        message.string = tuple(map(_wide, message.id)) if is_counted else _wide(message.id)
    file = folder / "qps" / "LC_MESSAGES" / "jupyter_tpu.mo"
    file.parent.mkdir(parents=True)
    file.write_bytes(catalogue.mo(texts))
    return {"LANGUAGE": "qps", "JUPYTER_TPU_LOCALE": str(folder)}


def english_lines(text: str, allowed: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines with plain letters, apart from what the regular expressions in `allowed` match."""
    for line in text.splitlines():
        left = line
        for known in allowed:
            left = re.sub(known, " ", left)
        if re.search(r"[A-Za-z]{2}", left):
            yield line


def _wide(text: str) -> str:
    parts = _PLACEHOLDER.split(text)
    return "".join(part if _PLACEHOLDER.fullmatch(part) else part.translate(_WIDE) for part in parts)
