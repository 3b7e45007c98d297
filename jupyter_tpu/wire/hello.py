"""The greeting: both sides say which protocols they speak before anything else.

An old agent is served, not killed, because it holds somebody's kernels: the highest protocol that both speak is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jupyter_tpu.wire.frames import ProtocolError

PROTOCOLS = (1,)
"""The protocols this version speaks."""

_CLIENT_LETTERS = frozenset("0123456789abcdef")


def client_hello(client_id: str, version: str) -> dict[str, Any]:
    """What the client says first. `client_id` is 32 hexadecimal digits, new for each link."""
    return {"protocols": list(PROTOCOLS), "client_id": client_id, "version": version}


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


def checked_client_id(value: Any) -> str:
    """A client id as `client_hello` promises it, or a `ProtocolError`."""
    if not isinstance(value, str) or len(value) != 32 or not set(value) <= _CLIENT_LETTERS:
        raise ProtocolError(f"no client id: {str(value)[:60]}")
    return value
