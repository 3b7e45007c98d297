"""The greeting: both sides say which protocols they speak before anything else.

An old agent is served, not killed, because it holds somebody's kernels: the highest protocol that both speak is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jupyter_tpu.wire.frames import ProtocolError

PROTOCOLS = (1,)
"""The protocols this version speaks."""

ACCEPTS = ("express", "notice")
"""Kinds of frames that came later: an agent sends them only to clients that say so.

A kind that nobody has asked for is refused like any other nonsense. So whoever invents one adds a word here.
"""

AGENT_KNOWS = ("abort_until",)
"""Parameters of calls that came later and that a client must not rely on with an older agent."""

_CLIENT_LETTERS = frozenset("0123456789abcdef")


def client_hello(client_id: str, version: str, epoch: int = 0) -> dict[str, Any]:
    """What the client says first.

    Args:
        client_id: 32 hexadecimal digits, new for each link.
        epoch: higher for each new connection of the link; the agent ends connections of a lower one.
    """
    hello = {"protocols": list(PROTOCOLS), "client_id": client_id, "version": version}
    return {**hello, "epoch": epoch, "accepts": list(ACCEPTS)}


def agent_hello(about: dict[str, Any]) -> dict[str, Any]:
    """What the agent answers; `about` describes it to people."""
    return {"protocols": list(PROTOCOLS), "agent": about}


def negotiate(theirs: Any, ours: Iterable[int] = PROTOCOLS) -> int:
    """The highest protocol that both speak.

    Raises:
        ProtocolError: there is none, or the peer's list is not a list of numbers.
    """
    if not isinstance(theirs, list) or not all(isinstance(protocol, int) for protocol in theirs):
        raise ProtocolError(f"no list of protocols: {str(theirs)[:60]}")
    common: set[int] = set(theirs) & set(ours)
    if not common:
        raise ProtocolError(f"it speaks protocols {sorted(theirs)[:9]}, we speak {sorted(ours)}")
    return max(common)


def checked_epoch(value: Any) -> int:
    """An epoch as `client_hello` promises it, or a `ProtocolError`."""
    if not isinstance(value, int):
        raise ProtocolError(f"no epoch: {str(value)[:60]}")
    return value


def accepted(theirs: Any) -> frozenset[str]:
    """Which later kinds of frames the client accepts; an old one says nothing of it."""
    words = theirs if isinstance(theirs, list) else []
    return frozenset(word for word in ACCEPTS if word in words)


def checked_client_id(value: Any) -> str:
    """A client id as `client_hello` promises it, or a `ProtocolError`."""
    if not isinstance(value, str) or len(value) != 32 or not set(value) <= _CLIENT_LETTERS:
        raise ProtocolError(f"no client id: {str(value)[:60]}")
    return value
