"""Pages of a list, with tokens that are opaque to the client."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import bad_field

Item = TypeVar("Item")
_MARK = b"after:"


@assumed(
    "page-size",
    "A list without pageSize has pages of 500 entries, and a page never has more than 1,000. An invalid page "
    "token is refused with 400.",
)
def page_size_of(requested: int) -> int:
    """Return the size of a page; 0 means the default."""
    if requested < 0:
        raise bad_field("page_size", "page_size must not be negative")
    return min(requested or 500, 1000)


def token_after(name: str) -> str:
    """Return the token of the page that starts after a name."""
    return base64.urlsafe_b64encode(_MARK + name.encode()).decode()


def name_before(token: str) -> str:
    """Return the name after which the page with this token starts; empty for the first page."""
    if not token:
        return ""
    try:
        plain = base64.urlsafe_b64decode(token.encode())
    except (binascii.Error, ValueError):
        plain = b""
    # the mark distinguishes our tokens from other base64 text
    if not plain.startswith(_MARK):
        raise bad_field("page_token", "page_token is not valid")
    return plain.removeprefix(_MARK).decode(errors="replace")


def page_of(items: Sequence[Item], key: Callable[[Item], str], size: int, token: str) -> tuple[list[Item], str]:
    """Return one page of items sorted by `key`, and the token of the next page (empty if there is none)."""
    start = name_before(token)
    rest = [item for item in items if key(item) > start]
    return cut(rest, key, page_size_of(size))


def cut(rest: Sequence[Item], key: Callable[[Item], str], size: int) -> tuple[list[Item], str]:
    """Return the first `size` items, and the token of the next page (empty if there is none)."""
    head = list(rest[:size])
    # continue by name, not by number, so that items added or deleted between two pages shift nothing
    return head, token_after(key(head[-1])) if len(rest) > size else ""
