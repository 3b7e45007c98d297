"""Whatever JSON comes from a kernel, a node or a damaged file: sense, or the error that the reader has announced."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.session import DELIM, Session

from jupyter_tpu.agent.autostop.snapshots import Snapshots
from jupyter_tpu.agent.recording.checkpoint import Checkpoint
from jupyter_tpu.agent.recording.jupyter_messages import is_execute_request, json_object, text_of
from jupyter_tpu.agent.recording.request_index import RequestIndex
from jupyter_tpu.journal.audit import _detail
from jupyter_tpu.kernels.connections.known_addresses import KnownAddresses
from jupyter_tpu.kernels.kernelspecs import _read as read_kernelspec
from jupyter_tpu.kernels.messages.event_notices import event_notice
from jupyter_tpu.kernels.messages.execution_log import ExecutionLog
from jupyter_tpu.kernels.messages.execution_watch import ExecutionWatch
from jupyter_tpu.kernels.messages.fanout import _is_cut
from jupyter_tpu.kernels.registry.notes import _read as read_note
from jupyter_tpu.notebook.node.holders import _noted_notebook
from jupyter_tpu.outputs.parsing import Malformed, parse
from jupyter_tpu.outputs.parsing import json_object as strict_object
from jupyter_tpu.server.websocket.page_messages import V1_PROTOCOL, KernelHeaders, PageMessage, Unreadable, to_websocket
from jupyter_tpu.server.websocket.text_limit import TextLimit
from jupyter_tpu.wire.frames import ProtocolError
from jupyter_tpu.wire.frames import json_object as frame_object
from jupyter_tpu.wire.multipart import Channel

FIELDS = ("msg_type", "msg_id", "session", "text", "name", "execution_state", "execution_count", "code", "cellId")
DEEP = [b"[" * depth + b"]" * depth for depth in (300, 900, 980, 200_000)]
HUGE = [b"1" * 5000, b"1e999", b"NaN", b'"%s"' % (b"x" * 2**20)]
VALUES = [b"null", b"3", b'"text"', b'"\\ud800"', b"[]", b"{}", *HUGE, *DEEP]
HOSTILE = [
    *(b"", b"\xff", b"{", b"[" * 200_000, b'{"a":' * 200_000, b'{"a": "\\ud800"}'),
    *VALUES,
    *(b"{" + b", ".join(b'"%s": %s' % (name.encode(), value) for name in FIELDS) + b"}" for value in VALUES),
]
HEADERS = [b'{"msg_type": "%s", "msg_id": "1"}' % kind for kind in (b"stream", b"status", b"error", b"execute_request")]


@pytest.fixture(params=range(len(HOSTILE)))
def hostile(request: pytest.FixtureRequest) -> bytes:
    """JSON that is deep, huge, of the wrong type, or none."""
    return HOSTILE[request.param]


def messages(hostile: bytes) -> list[list[bytes]]:
    """Messages in which one part or all are hostile."""
    made = [[header, b'{"msg_id": "1"}', b"{}", b"{}"] for header in HEADERS]
    made += [[*parts[:place], hostile, *parts[place + 1 :]] for parts in made for place in range(4)]
    return [[DELIM, b"", *parts] for parts in [*made, [hostile] * 4]]


def test_a_page_gets_any_message_or_it_is_named_unreadable(hostile: bytes) -> None:
    make_header = KernelHeaders(Session().msg_header)
    floods = TextLimit(make_header, lambda _id, _size, _text: {"text/plain": "more"}, text_limit=10)
    for seq, parts in enumerate(messages(hostile), start=1):
        message = PageMessage.from_parts(seq, "iopub", parts)
        assert message is not None
        make_header.store_header(message.header)
        for sent, protocol in itertools.product(floods.feed([message], seq), (V1_PROTOCOL, None)):
            with suppress(Unreadable):
                to_websocket(sent, protocol)
        json.dumps(make_header("status"), default=str)


def test_a_worker_takes_note_of_any_message(hostile: bytes, tmp_path: Path) -> None:
    index, runs = RequestIndex(), ExecutionWatch(ExecutionLog(tmp_path, "kernel"))
    for seq, (parts, channel) in enumerate(itertools.product(messages(hostile), Channel), start=1):
        body = [hostile] if channel == Channel.EVENT else parts
        index.observe(seq, 0.0, channel, body, 1)
        runs.observe({Channel.REQUEST: "request", Channel.IOPUB: "iopub"}.get(channel, "shell"), parts)
        assert is_execute_request(parts) in (True, False)
    assert json.loads(json.dumps(index.describe(0.0))) == index.describe(0.0)


def test_an_event_of_any_kind_is_words_or_none(hostile: bytes) -> None:
    assert _is_cut("event", [hostile]) in (True, False)
    for kind in ("words", "cut", "gap", "unreadable"):
        with suppress(RecursionError):  # in the follower's hands, which leaves it out
            assert isinstance(event_notice({**json_object(hostile), "event": kind}), str)


def test_a_decoder_gives_an_object_or_the_error_that_it_announces(hostile: bytes) -> None:
    assert isinstance(json_object(hostile), dict)
    assert all(isinstance(text_of(json_object(hostile), name), str) for name in FIELDS)
    for decode, error in ((strict_object, Malformed), (frame_object, ProtocolError)):
        with suppress(error):
            assert isinstance(decode(hostile), dict)
    for parts in messages(hostile):
        with suppress(Malformed):
            parse(1, parts)


def read_address(path: Path) -> Any:
    known = KnownAddresses(path.parent)
    path.rename(known._path("worker"))
    return known.load("worker")


def read_lost(path: Path) -> Any:
    runs = ExecutionLog(path.parent, "kernel")
    path.rename(runs._lost_path)
    return runs.lost()


READERS: list[tuple[str, Callable[[Path], Any]]] = [
    ("address.json", read_address),
    ("checkpoint.json", lambda path: Checkpoint(path).load(RequestIndex(), 10)),
    ("kernel.json", lambda path: _noted_notebook(1, path.parent.parent)),
    ("kernel.json", read_kernelspec),
    ("note.json", read_note),
    ("kernel.lost", read_lost),
    ("snapshots.json", lambda path: Snapshots(path)),
    ("detail", lambda path: _detail(path.read_text(errors="surrogateescape"))),
]


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_damaged_file_is_read_as_nothing(
    hostile: bytes, tmp_path: Path, name: str, read: Callable[[Path], Any]
) -> None:
    path = tmp_path / "kernel" / name
    path.parent.mkdir()
    path.write_bytes(hostile)
    read(path)
