"""The hello frames: both sides first send the protocol versions that they support.

Both sides use the highest version that both support. An older agent must still work, because it can't be restarted
while it runs a user's kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jupyter_tpu.wire.frames import ProtocolError

PROTOCOLS = (1,)
"""The protocol versions that this code supports."""

ACCEPTS = ("express", "notice")
"""Kinds of frames that were added later.

An agent sends them only to clients that list them in their hello. A client treats any other kind as a protocol error,
so each new kind must be added here.
"""

AGENT_KNOWS = ("abort_until", "open")
"""Parameters of calls, and kinds of frames, that were added later.

A client uses them only with an agent that lists them.
"""

_CLIENT_ID_DIGITS = frozenset("0123456789abcdef")


def client_hello(client_id: str, version: str, epoch: int = 0) -> dict[str, Any]:
    """Return the client's hello, the first frame of a connection.

    Args:
        client_id: 32 hexadecimal digits, new for each link.
        version: the package's version.
        epoch: increases with each new connection of the link; the agent closes connections with a lower epoch, because
            a broken connection may still look open on the worker.
    """
    hello = {"protocols": list(PROTOCOLS), "client_id": client_id, "version": version}
    return {**hello, "epoch": epoch, "accepts": list(ACCEPTS)}


def agent_hello(about: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's hello; `about` describes the agent with its version, its pid and similar data."""
    return {"protocols": list(PROTOCOLS), "agent": about}


def negotiate(theirs: Any, ours: Iterable[int] = PROTOCOLS) -> int:
    """Return the highest protocol version that both sides support.

    Raises:
        ProtocolError: there is no common version, or `theirs` is not a list of numbers.
    """
    if not isinstance(theirs, list) or not all(isinstance(protocol, int) for protocol in theirs):
        raise ProtocolError(f"not a list of protocols: {str(theirs)[:60]}")
    common: set[int] = set(theirs) & set(ours)
    if not common:
        raise ProtocolError(f"it supports the protocols {sorted(theirs)[:9]}, but this side supports {sorted(ours)}")
    return max(common)


def checked_epoch(value: Any) -> int:
    """Return `value` if it is an epoch as in `client_hello`; raise `ProtocolError` for any other value."""
    if not isinstance(value, int):
        raise ProtocolError(f"no epoch: {str(value)[:60]}")
    return value


def accepted(theirs: Any) -> frozenset[str]:
    """Return the kinds in `ACCEPTS` that a client accepts. An old client sends no list, so it accepts none of them."""
    kinds = theirs if isinstance(theirs, list) else []
    return frozenset(kind for kind in ACCEPTS if kind in kinds)


def checked_client_id(value: Any) -> str:
    """Return `value` if it is a client id as in `client_hello`; raise `ProtocolError` for any other value."""
    if not isinstance(value, str) or len(value) != 32 or not set(value) <= _CLIENT_ID_DIGITS:
        raise ProtocolError(f"no client id: {str(value)[:60]}")
    return value
