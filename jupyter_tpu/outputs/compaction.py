"""The fewest messages that bring a fresh front end to the state in which the messages of a request left it.

Not the outputs alone: what a display is called, whether the next output clears the others, where in a line a progress
bar stands. So live messages can follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_tpu.outputs.parsing import Message
from jupyter_tpu.outputs.rendering import Part, Rendered, render
from jupyter_tpu.outputs.request import Request

_UNSENT = {"session": "", "username": "", "date": "", "version": "5.3"}


def compact(request: Request, rendered: Rendered | None = None) -> list[dict[str, Any]]:
    """Whole iopub messages, each with the seq of the newest message that it stands for in its metadata.

    Args:
        rendered: what `render` gave, if that is at hand. Outputs are cut as they are there.
    """
    return list(_messages(request, rendered or render(request)))


def _messages(request: Request, rendered: Rendered) -> Iterator[dict[str, Any]]:
    if request.busy:
        yield _message(request, request.busy, "status", {"execution_state": "busy"})
    if request.execute_input:
        yield _message(request, request.execute_input, "execute_input", request.execute_input.content)
    for part in rendered.parts:
        yield _output_message(request, part)
    if request.is_clearing:
        yield _message(request, None, "clear_output", {"wait": True})
    if request.idle:
        yield _message(request, request.idle, "status", {"execution_state": "idle"})


def _output_message(request: Request, part: Part) -> dict[str, Any]:
    content = {name: value for name, value in part.output.items() if name != "output_type"}
    if part.cursor:
        content["text"] += part.cursor
    return _message(request, part.source, part.output["output_type"], content)


def _message(request: Request, source: Message | None, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    said_by = source or request.busy
    header = said_by.header if said_by else {"msg_id": f"{request.msg_id}_{kind}", **_UNSENT}
    return {
        "header": {**header, "msg_type": kind},
        "parent_header": request.header,
        "metadata": {"jupyter_tpu": {"seq": source.seq if source else request.last_seq}},
        "content": dict(content),
        "msg_type": kind,
    }
