"""Messages for a page: each is a message from a kernel's record, with its seq in the record.

A kernel's bytes are forwarded unchanged: contents are decoded only if a page needs the old protocol, and messages are
not signed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_client.jsonutil import json_default
from jupyter_client.session import DELIM
from jupyter_server.services.kernels.connection.base import serialize_binary_message, serialize_msg_to_ws_v1

from jupyter_tpu.agent.recording.jupyter_messages import json_object, text_of

V1_PROTOCOL = "v1.kernel.websocket.jupyter.org"

MakeHeader = Callable[[str], dict[str, Any]]
"""A function that returns a new header for a message that jupyter_tpu creates, given the message type."""

_PARTS = 4  # header, parent header, metadata, content
_CHECKED_BYTES = 1024 * 1024  # parsing 1 MiB of JSON takes several milliseconds, which block all other pages


class Unreadable(Exception):
    """A message that a page could not parse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMessage:
    """One message for a page.

    Attributes:
        seq: the message's seq in the kernel's record; 0 for a message from jupyter_tpu.
        first_seq: the seq of the first message that was merged into this one; equal to `seq` if no message was merged.
        is_notice: whether it is jupyter_tpu's text about the kernel, which must be shown even if a cell's text is
            limited.
    """

    channel: str
    header: bytes
    parent_header: bytes
    metadata: bytes
    content: bytes
    buffers: tuple[bytes, ...] = ()
    seq: int = 0
    first_seq: int = 0
    is_notice: bool = False

    @classmethod
    def from_parts(cls, seq: int, channel: str, parts: Sequence[bytes]) -> PageMessage | None:
        """Return a message from the record, or None if the parts are not a Jupyter message."""
        frames = list(parts[list(parts).index(DELIM) + 2 :]) if DELIM in parts else []
        if len(frames) < _PARTS:
            return None
        header, parent_header, metadata, content, *buffers = frames
        return cls(
            channel=channel,
            header=header,
            parent_header=parent_header,
            metadata=metadata,
            content=content,
            buffers=tuple(buffers),
            seq=seq,
            first_seq=seq,
        )

    @classmethod
    def made(
        cls, header: Mapping[str, Any], parent_header: bytes, content: Mapping[str, Any], channel: str = "iopub"
    ) -> PageMessage:
        """Return a message that jupyter_tpu itself creates."""
        return cls(
            channel=channel,
            header=_json(header),
            parent_header=parent_header or b"{}",
            metadata=b"{}",
            content=_json(content),
        )

    @property
    def msg_type(self) -> str:
        """The message type; empty if the header is invalid."""
        return text_of(json_object(self.header), "msg_type")

    @property
    def parent_id(self) -> str:
        """The msg_id of the request to which the message belongs; empty if the message belongs to no request."""
        return text_of(json_object(self.parent_header), "msg_id")

    @property
    def size(self) -> int:
        """The approximate size on the WebSocket, in bytes."""
        return sum(map(len, (self.header, self.parent_header, self.metadata, self.content, *self.buffers)))

    def at(self, seq: int, first_seq: int = 0) -> PageMessage:
        """Return a copy of the message with another seq."""
        return replace(self, seq=seq, first_seq=first_seq or seq)

    def with_content(self, content: Mapping[str, Any], **changes: Any) -> PageMessage:
        """Return a copy of the message with other content and with the fields in `changes` replaced."""
        return replace(self, content=_json(content), **changes)


class KernelHeaders:
    """Headers for messages from jupyter_tpu, with the session id of the kernel's messages.

    JupyterLab and VS Code drop unhandled messages when a message with another session id arrives.
    """

    def __init__(self, make_header: MakeHeader) -> None:
        self._make_header = make_header
        self._last = b""

    def store_header(self, header: bytes) -> None:
        """Store the header of a message from the kernel."""
        self._last = header

    def __call__(self, kind: str) -> dict[str, Any]:
        """Return a new message header with this message type."""
        made = self._make_header(kind)
        return {**made, "session": text_of(json_object(self._last), "session") or made.get("session")}


def small_reply(reply: PageMessage, reason: str) -> PageMessage:
    """Return a reply without its large parts: for a cell, its status; for other requests, an error with the reason.

    Args:
        reason: the text of that error.
    """
    content = json_object(reply.content)
    small: dict[str, Any] = {"status": "error", "ename": "MessageTooLarge", "evalue": reason, "traceback": []}
    if reply.msg_type == "execute_reply" and content.get("status") == "ok":
        small = {"status": "ok", "execution_count": content.get("execution_count"), "user_expressions": {}}
    return reply.with_content({**small, "payload": []}, buffers=())


def to_websocket(message: PageMessage, subprotocol: str | None) -> bytes | str:
    """Serialise a message as Jupyter Server does, with version 1 of the protocol if the page negotiated it.

    Raises:
        Unreadable: a page could not parse the message.
    """
    metadata = with_place(message.metadata, message.seq, message.first_seq)
    frames = [message.header, message.parent_header, metadata, message.content]
    try:
        return _serialized(frames, message, subprotocol)
    except (ValueError, LookupError, TypeError, RecursionError) as error:  # a kernel may send anything
        raise Unreadable(f"message {message.seq} is malformed") from error


def _serialized(frames: list[bytes], message: PageMessage, subprotocol: str | None) -> bytes | str:
    if subprotocol == V1_PROTOCOL:
        for frame in frames:
            if len(frame) <= _CHECKED_BYTES:  # a page that fails to parse one frame loses its whole connection
                json.loads(frame)
        whole: bytes = serialize_msg_to_ws_v1([*frames, *message.buffers], message.channel)  # type: ignore[no-untyped-call]
        return whole
    header, parent_header, unpacked_metadata, content = (json.loads(frame) for frame in frames)
    unpacked = {
        "header": header,
        "msg_id": header["msg_id"],
        "msg_type": header["msg_type"],
        "parent_header": parent_header,
        "metadata": unpacked_metadata,
        "content": content,
        "buffers": list(message.buffers),
        "channel": message.channel,
    }
    if message.buffers:
        binary: bytes = serialize_binary_message(unpacked)  # type: ignore[no-untyped-call]
        return binary
    return json.dumps(unpacked)


def with_place(metadata: bytes, seq: int, first_seq: int) -> bytes:
    """Return metadata with ``"jupyter_tpu": {"seq": …}`` as its last key, which overrides a key from the kernel.

    The key is appended without parsing, so the cost does not depend on the size of the metadata.
    """
    stripped = metadata.rstrip()
    if not seq or not stripped.endswith(b"}"):
        return metadata
    body = stripped[:-1].rstrip()
    place = {"seq": seq} if first_seq in (0, seq) else {"seq": seq, "first_seq": first_seq}
    return body + (b"" if body.endswith(b"{") else b", ") + b'"jupyter_tpu": ' + _json(place) + b"}"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, default=json_default).encode()
