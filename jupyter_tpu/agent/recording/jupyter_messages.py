"""What the agent looks at in Jupyter's messages: no more than which request a message belongs to and what kind it is.

A multipart message is routing identities, a delimiter, a signature, then header, parent header, metadata and content as
JSON, then buffers. It may come from a garbled kernel or client, so nothing here raises.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

DELIMITER = b"<IDS|MSG>"
AGENT_SESSION = "jupyter-tpu-agent"
"""The session of messages that the agent makes."""
_LEAST_FRAMES = 6


def header_place(parts: Sequence[bytes]) -> int:
    """Where the header is; behind it come parent header, metadata and content. 0 when this is no Jupyter message."""
    try:
        place = parts.index(DELIMITER)
    except ValueError:
        return 0
    return place + 2 if len(parts) - place >= _LEAST_FRAMES else 0


def json_object(frame: bytes) -> dict[str, Any]:
    """A frame as a JSON object; empty when it is none."""
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_execute_request(parts: Sequence[bytes]) -> bool:
    """Whether a message asks to run a cell."""
    place = header_place(parts)
    return bool(place) and json_object(parts[place]).get("msg_type") == "execute_request"


def asks_to_restart(parts: Sequence[bytes]) -> bool:
    """Whether a message asks the kernel to end because another process is to follow."""
    place = header_place(parts)
    is_end = bool(place) and json_object(parts[place]).get("msg_type") == "shutdown_request"
    return is_end and json_object(parts[place + 3]).get("restart") is True


def date_of(parts: Sequence[bytes]) -> datetime | None:
    """The date in the message's header, by the sender's clock; None if there is none, or one without a time zone."""
    place = header_place(parts)
    try:
        date = datetime.fromisoformat(text_of(json_object(parts[place]), "date").replace("Z", "+00:00"))
    except ValueError:
        return None
    return date if date.tzinfo else None


def text_of(header: dict[str, Any], name: str) -> str:
    """A field that should be a text; empty when it is none."""
    value = header.get(name)
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs as the kernel does: ``hmac-sha256`` or the like over header, parent header, metadata and content."""

    key: str
    scheme: str

    def sign(self, frames: Sequence[bytes]) -> bytes:
        """The signature; empty where messages are not signed."""
        if not self.key:
            return b""
        digest = hmac.new(self.key.encode(), digestmod=self.scheme.removeprefix("hmac-"))
        for frame in frames:
            digest.update(frame)
        return digest.hexdigest().encode()


def without_content(parts: Sequence[bytes], signer: Signer) -> list[bytes]:
    """The message with an empty content and no buffers: enough to know that it was sent."""
    place = header_place(parts)
    frames = [*parts[place : place + 3], b"{}"]
    return [*parts[: place - 1], signer.sign(frames), *frames]
