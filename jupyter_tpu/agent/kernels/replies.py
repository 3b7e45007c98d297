"""Reply on behalf of a kernel to requests that it will not run, or whose replies were lost."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import AGENT_SESSION, DELIMITER, Signer, header_place, kind_and_id
from jupyter_tpu.agent.recording.recorder import PROBE, Recorder
from jupyter_tpu.wire.multipart import Channel
from jupyter_tpu.worker_clock import wall_clock

_PREFIX = "jupyter-tpu-"


class Replies:
    """Creates replies that are signed with the kernel's key and recorded as if the kernel had sent them."""

    def __init__(self, recorder: Recorder, signer: Signer) -> None:
        self._recorder = recorder
        self._signer = signer

    def probe(self, subshell_id: str = "") -> tuple[str, list[bytes]]:
        """Make a request that every kernel replies to; return its msg_id and frames.

        Args:
            subshell_id: the subshell that must reply; empty for the main shell.
        """
        msg_id = PROBE + uuid.uuid4().hex
        more = {"subshell_id": subshell_id} if subshell_id else {}
        return msg_id, self._message("kernel_info_request", msg_id, b"{}", {}, **more)

    def reply(self, request: list[bytes], content: Mapping[str, Any]) -> None:
        """Reply to a request on the shell channel."""
        place = header_place(request)
        kind = kind_and_id(request[place])[0].replace("_request", "_reply")
        # Put the request's routing identities before the delimiter, so that the reply reaches the client that sent the
        # request.
        message = self._message(kind, _new_id(), request[place], content)
        self._recorder.record(Channel.SHELL, [[*request[: place - 2], *message]])

    def end(self, request: list[bytes], content: Mapping[str, Any]) -> None:
        """Reply to an execute_request and publish the status "idle", which completes the cell."""
        self.reply(request, content)
        self._publish("status", request, {"execution_state": "idle"})

    def abort(self, request: list[bytes]) -> None:
        """Reply to a cell that was not run and never will be."""
        self.end(request, {"status": "aborted"})

    def fail(self, request: list[bytes], ename: str, evalue: str) -> None:
        """Reply to a cell that was not run, with an error shown below the cell."""
        self.end(request, self._publish_error(request, ename, evalue))

    def fail_ended(self, request: list[bytes], ename: str, evalue: str) -> None:
        """Reply like `fail` to a cell for which the kernel has already published the status "idle"."""
        self.reply(request, self._publish_error(request, ename, evalue))

    def _publish_error(self, request: list[bytes], ename: str, evalue: str) -> dict[str, Any]:
        error = {"ename": ename, "evalue": evalue, "traceback": [f"{ename}: {evalue}"]}
        self._publish("error", request, error)
        return {"status": "error", **error}

    def _publish(self, kind: str, request: list[bytes], content: Mapping[str, Any]) -> None:
        message = self._message(kind, _new_id(), request[header_place(request)], content)
        self._recorder.record(Channel.IOPUB, [[kind.encode(), *message]])

    def _message(
        self, kind: str, msg_id: str, parent: bytes, content: Mapping[str, Any], **more_header: str
    ) -> list[bytes]:
        header = {
            "msg_id": msg_id,
            "msg_type": kind,
            "username": "agent",
            "session": AGENT_SESSION,
            "date": datetime.fromtimestamp(wall_clock(), timezone.utc).isoformat(),
            "version": "5.3",
            **more_header,
        }
        frames = [json.dumps(header).encode(), parent, b"{}", json.dumps(content).encode()]
        return [DELIMITER, self._signer.sign(frames), *frames]


def _new_id() -> str:
    return _PREFIX + uuid.uuid4().hex
