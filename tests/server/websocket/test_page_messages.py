"""Messages of a record as a page gets them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import DELIM, Session
from jupyter_server.services.kernels.connection.base import deserialize_binary_message, deserialize_msg_from_ws_v1

from jupyter_tpu.server.websocket.page_messages import V1_PROTOCOL, PageMessage, to_websocket, with_place

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def parts_of(kind: str = "stream", metadata: Any = None, buffers: tuple[bytes, ...] = ()) -> list[bytes]:
    session = Session(key=b"secret")
    message = session.msg(kind, {"name": "stdout", "text": "é\n"}, metadata=metadata)
    return [b"topic", *session.serialize(message), *buffers]


def message_of(parts: list[bytes], seq: int = 7) -> PageMessage:
    message = PageMessage.from_parts(seq, "iopub", parts)
    assert message is not None
    return message


@given(metadata=st.dictionaries(st.text(), JSON, max_size=4), indent=st.sampled_from([None, 2]))
def test_a_place_is_added_to_any_metadata_and_changes_nothing_else(
    metadata: dict[str, Any], indent: int | None
) -> None:
    told = json.loads(with_place(json.dumps(metadata, indent=indent).encode(), 12, 12))

    assert told == {**metadata, "jupyter_tpu": {"seq": 12}}


def test_a_kernel_cannot_claim_a_place_of_its_own() -> None:
    metadata = with_place(b'{"jupyter_tpu": {"seq": 1}}', 12, 10)

    assert json.loads(metadata) == {"jupyter_tpu": {"seq": 12, "first_seq": 10}}


def test_words_of_ours_have_no_place() -> None:
    assert with_place(b"{}", 0, 0) == b"{}"


def test_metadata_that_is_no_object_stays_as_it_is() -> None:
    assert with_place(b"null", 3, 3) == b"null"


def test_version_1_carries_the_kernels_own_bytes_and_buffers() -> None:
    parts = parts_of(buffers=(b"\0\1", b""))

    channel, frames = deserialize_msg_from_ws_v1(to_websocket(message_of(parts), V1_PROTOCOL))

    start = parts.index(DELIM) + 2
    assert channel == "iopub"
    assert [*frames[:2], *frames[3:]] == [*parts[start : start + 2], *parts[start + 3 :]]
    assert json.loads(frames[2]) == {"jupyter_tpu": {"seq": 7}}


def test_the_old_protocol_is_json_and_binary_with_buffers() -> None:
    text = to_websocket(message_of(parts_of()), None)
    binary = to_websocket(message_of(parts_of(buffers=(b"\0\1",))), None)
    assert isinstance(text, str)
    plain, buffered = json.loads(text), deserialize_binary_message(binary)

    assert (plain["channel"], plain["msg_type"], plain["content"]["text"]) == ("iopub", "stream", "é\n")
    assert plain["metadata"] == {"jupyter_tpu": {"seq": 7}}
    assert plain["msg_id"] == plain["header"]["msg_id"]
    assert buffered["buffers"] == [b"\0\1"]


@pytest.mark.parametrize("parts", [[], [b"noise"], [DELIM], [DELIM, b"", b"{}", b"{}", b"{}"]])
def test_what_is_no_message_is_none(parts: list[bytes]) -> None:
    assert PageMessage.from_parts(1, "iopub", parts) is None


@pytest.mark.parametrize("header", [b"", b"[]", b"\xff", b"{", b'{"msg_type": 3}'])
def test_a_header_that_makes_no_sense_has_no_type_or_that_of_its_words(header: bytes) -> None:
    parts = [DELIM, b"", header, header, b"{}", b"{}"]

    assert message_of(parts).msg_type in ("", "3")
    assert message_of(parts).parent_id == ""
