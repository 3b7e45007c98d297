"""Replies that the agent makes where the kernel can't: to a request that it will not run, or whose reply was lost."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import AGENT_SESSION, DELIMITER, Signer, header_place
from jupyter_tpu.agent.recording.recorder import PROBE, Recorder
from jupyter_tpu.wire.messages import Channel

_PREFIX = "jupyter-tpu-"


class Replies:
    """Makes messages, signs them with the kernel's key and records them as if the kernel had said them."""

    def __init__(self, intake: Recorder, signer: Signer) -> None:
        self._intake = intake
        self._signer = signer

    def probe(self) -> tuple[str, list[bytes]]:
        """The msg_id of a request that every kernel answers, and the request."""
        msg_id = PROBE + uuid.uuid4().hex
        return msg_id, self._message("kernel_info_request", msg_id, b"{}", {})

    def reply(self, asked: list[bytes], content: Mapping[str, Any]) -> None:
        """Answer an execute_request."""
        place = header_place(asked)
        message = self._message("execute_reply", _new_id(), asked[place], content)
        self._intake.take(Channel.SHELL, [[*asked[: place - 2], *message]])

    def end(self, asked: list[bytes], content: Mapping[str, Any]) -> None:
        """Answer an execute_request and say that it is over."""
        self.reply(asked, content)
        self._publish("status", asked, {"execution_state": "idle"})

    def abort(self, asked: list[bytes]) -> None:
        """A cell was not run, and will not be."""
        self.end(asked, {"status": "aborted"})

    def fail(self, asked: list[bytes], ename: str, evalue: str) -> None:
        """A cell was not run, for a reason that its user sees below it."""
        error = {"ename": ename, "evalue": evalue, "traceback": [f"{ename}: {evalue}"]}
        self._publish("error", asked, error)
        self.end(asked, {"status": "error", **error})

    def _publish(self, kind: str, asked: list[bytes], content: Mapping[str, Any]) -> None:
        message = self._message(kind, _new_id(), asked[header_place(asked)], content)
        self._intake.take(Channel.IOPUB, [[kind.encode(), *message]])

    def _message(self, kind: str, msg_id: str, parent: bytes, content: Mapping[str, Any]) -> list[bytes]:
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "username": "agent",
            "session": AGENT_SESSION,
            "date": datetime.now(timezone.utc).isoformat(),
            "version": "5.3",
        }
        frames = [json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]
        return [DELIMITER, self._signer.sign(frames), *frames]


def _new_id() -> str:
    return _PREFIX + uuid.uuid4().hex
