"""Parse the headers of Jupyter's messages, and sign messages.

A multipart message has routing identities, a delimiter, a signature, the header, parent header, metadata and content as
JSON, then buffers. It may come from a broken kernel or client, so the functions here never raise.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jupyter_tpu.wire.entries import Entry
from jupyter_tpu.wire.multipart import Channel

DELIMITER = b"<IDS|MSG>"
AGENT_SESSION = "jupyter-tpu-agent"
"""The session id in messages that the agent creates."""
# Message types that report that a cell started, failed or finished.
_FRAMING = frozenset({"status", "execute_input", "error"})
# Minimum number of frames of a message: the delimiter, the signature and the four JSON frames.
_LEAST_FRAMES = 6


def header_place(parts: Sequence[bytes]) -> int:
    """Return the index of a message's header frame, or 0 if there is none.

    The frames of the parent header, metadata and content follow it.
    """
    try:
        place = parts.index(DELIMITER)
    except ValueError:
        return 0
    return place + 2 if len(parts) - place >= _LEAST_FRAMES else 0


def json_object(frame: bytes) -> dict[str, Any]:
    """Parse a frame as a JSON object; return an empty dict if it isn't one."""
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_execute_request(parts: Sequence[bytes]) -> bool:
    """Whether a message is a request to run a cell."""
    place = header_place(parts)
    return bool(place) and json_object(parts[place]).get("msg_type") == "execute_request"


def asks_to_restart(parts: Sequence[bytes]) -> bool:
    """Whether a message is a request to shut down the kernel for a restart."""
    place = header_place(parts)
    is_end = bool(place) and json_object(parts[place]).get("msg_type") == "shutdown_request"
    return is_end and json_object(parts[place + 3]).get("restart") is True


def asks_to_interrupt(parts: Sequence[bytes]) -> bool:
    """Whether a message is a request to interrupt the kernel."""
    place = header_place(parts)
    return bool(place) and json_object(parts[place]).get("msg_type") == "interrupt_request"


def is_output(entry: Entry) -> bool:
    """Whether an entry is a cell's output, unlike replies, events and messages that mark a cell's start or end."""
    place = header_place(entry.parts)
    return entry.channel == Channel.IOPUB and (
        not place or text_of(json_object(entry.parts[place]), "msg_type") not in _FRAMING
    )


def kind_and_id(header: bytes) -> tuple[str, str]:
    """Return the message type and msg_id in a header; each is empty if missing."""
    found = json_object(header)
    return text_of(found, "msg_type"), text_of(found, "msg_id")


def subshell_of(parts: Sequence[bytes]) -> str:
    """Return the id of the subshell that a request is for, or an empty string for the main shell."""
    return text_of(json_object(parts[header_place(parts)]), "subshell_id")


def date_of(parts: Sequence[bytes]) -> datetime | None:
    """Return the date in the header, on the sender's clock, or None if it is missing or has no time zone."""
    place = header_place(parts)
    try:
        # Python 3.10 does not parse a "Z".
        date = datetime.fromisoformat(text_of(json_object(parts[place]), "date").replace("Z", "+00:00"))
    except ValueError:
        return None
    return date if date.tzinfo else None


def text_of(header: dict[str, Any], name: str) -> str:
    """Return a field that should be a string, or an empty string if it isn't one."""
    value = header.get(name)
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Signer:
    """A signer of messages; like the kernel, it computes an HMAC over header, parent header, metadata and content.

    Attributes:
        key: the key in the connection file; empty if messages are not signed.
        scheme: signature scheme, such as ``hmac-sha256``.
    """

    key: str
    scheme: str

    def sign(self, frames: Sequence[bytes]) -> bytes:
        """Return the signature of the four JSON frames, or empty bytes if messages are not signed."""
        if not self.key:
            return b""
        digest = hmac.new(self.key.encode(), digestmod=self.scheme.removeprefix("hmac-"))
        for frame in frames:
            digest.update(frame)
        return digest.hexdigest().encode()


def without_content(parts: Sequence[bytes], signer: Signer) -> list[bytes]:
    """Return the message without content and buffers, which is enough to show that it was sent."""
    place = header_place(parts)
    frames = [*parts[place : place + 3], b"{}"]
    return [*parts[: place - 1], signer.sign(frames), *frames]
