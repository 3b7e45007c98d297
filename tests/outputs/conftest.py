"""Messages as a kernel and a record make them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from jupyter_tpu.outputs import Reducer

ABOUT = {"username": "user", "session": "kernel-session", "date": "2026-01-01T00:00:00.000000Z", "version": "5.4"}
Entry = tuple[str, list[bytes]]


def asked_header(msg_id: str) -> dict[str, Any]:
    return {"msg_id": msg_id, "msg_type": "execute_request", **ABOUT, "session": "page-session"}


class Recorded:
    """Builds entries of a record: channel and parts."""

    def __init__(self) -> None:
        self._count = 0

    def entry(
        self,
        channel: str,
        kind: str,
        content: Any,
        parent: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        msg_id: str = "",
    ) -> Entry:
        self._count += 1
        header = {"msg_id": msg_id or f"message-{self._count}", "msg_type": kind, **ABOUT}
        parts = [json.dumps(each).encode() for each in (header, parent, metadata or {}, content)]
        return channel, [b"topic", b"<IDS|MSG>", b"signature", *parts]

    def asked(self, msg_id: str, code: str = "", cell_id: str = "", **content: Any) -> Entry:
        content = {"code": code, "silent": False, **content}
        return self.entry("request", "execute_request", content, {}, {"cellId": cell_id} if cell_id else {}, msg_id)

    def said(self, kind: str, msg_id: str = "r", **content: Any) -> Entry:
        return self.entry("iopub", kind, content, asked_header(msg_id))

    def replied(self, msg_id: str = "r", **content: Any) -> Entry:
        return self.entry("shell", "execute_reply", content, asked_header(msg_id))

    def wants_input(self, msg_id: str = "r", input_id: str = "", **content: Any) -> Entry:
        return self.entry("stdin", "input_request", content, asked_header(msg_id), msg_id=input_id)

    def input_came(self, input_id: str = "", **content: Any) -> Entry:
        return self.entry("request", "input_reply", content, {"msg_id": input_id} if input_id else {})

    def again(self, messages: Iterable[Mapping[str, Any]]) -> list[Entry]:
        """Whole messages, as `compact` makes them, as entries."""
        entries = []
        for message in messages:
            names = ("header", "parent_header", "metadata", "content")
            parts = [json.dumps(message[name]).encode() for name in names]
            entries.append(("iopub", [b"topic", b"<IDS|MSG>", b"signature", *parts]))
        return entries

    def event(self, name: str, **content: Any) -> Entry:
        return "event", [json.dumps({"event": name, **content}).encode()]


def reduced(entries: Iterable[Entry], **limits: int) -> Reducer:
    """What these entries of a record amount to; `limits` are those of `Reducer`."""
    reducer = Reducer(**limits)
    for seq, (channel, parts) in enumerate(entries, 1):
        reducer.feed(seq, channel, parts)
    return reducer


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture(scope="session")
def reduce() -> Callable[..., Reducer]:
    return reduced
