"""The compacted messages of a request bring a fresh front end to the state that all its messages had brought it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.outputs import NO_LIMITS, Reducer, Request, compact, render

if TYPE_CHECKING:
    from conftest import Recorded

displays = st.builds(
    lambda kind, text, transient: (kind, {"data": {"text/plain": text}, "metadata": {}, "transient": transient}),
    st.sampled_from(["display_data", "update_display_data", "execute_result"]),
    st.text("xyz", max_size=3),
    st.sampled_from([{}, {"display_id": "a"}, {"display_id": "b"}]),
)
contents = st.one_of(
    st.builds(
        lambda name, text: ("stream", {"name": name, "text": text}),
        st.sampled_from(["stdout", "stderr"]),
        st.text("ab\n\r\b", max_size=8),
    ),
    displays,
    st.just(("error", {"ename": "E", "evalue": "e", "traceback": ["line"]})),
    st.sampled_from([("clear_output", {"wait": True}), ("clear_output", {"wait": False})]),
    st.just(("execute_input", {"code": "1", "execution_count": 5})),
    st.sampled_from([("status", {"execution_state": "busy"}), ("status", {"execution_state": "idle"})]),
)
sequences = st.lists(contents, max_size=30)
Reduce = Callable[..., Reducer]


def shown(request: Request) -> Any:
    rendered = render(request, NO_LIMITS)
    parts = [(part.output, part.cursor) for part in rendered.parts]
    return parts, request.is_clearing, request.execution_count, request.state, request.code


def of_messages(recorded: Recorded, sequence: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    return [recorded.said(kind, **content) for kind, content in sequence]


@given(sequences, sequences)
def test_what_follows_ends_as_if_every_message_had_been_seen(
    recorded: Recorded, reduce: Reduce, sequence: list[Any], following: list[Any]
) -> None:
    before, after = of_messages(recorded, sequence), of_messages(recorded, following)
    busy = recorded.said("status", execution_state="busy")
    compacted = recorded.again(compact(reduce([busy, *before]).requests["r"]))

    seen, restored = reduce([busy, *before, *after]), reduce([*compacted, *after])

    assert shown(restored.requests["r"]) == shown(seen.requests["r"])
    assert restored.skipped == 0


@given(sequences)
def test_cut_outputs_come_as_they_are_shown(recorded: Recorded, reduce: Reduce, sequence: list[Any]) -> None:
    busy = recorded.said("status", execution_state="busy")
    request = reduce([busy, *of_messages(recorded, sequence)], head=4, tail=6).requests["r"]

    restored = reduce(recorded.again(compact(request))).requests["r"]

    assert render(restored).outputs == render(request).outputs


@given(sequences)
def test_compacting_twice_changes_nothing(recorded: Recorded, reduce: Reduce, sequence: list[Any]) -> None:
    busy = recorded.said("status", execution_state="busy")
    once = compact(reduce([busy, *of_messages(recorded, sequence)]).requests["r"])

    twice = compact(reduce(recorded.again(once)).requests["r"])

    assert [(each["msg_type"], each["content"]) for each in twice] == [
        (each["msg_type"], each["content"]) for each in once
    ]


def test_it_is_no_longer_than_what_is_shown(recorded: Recorded, reduce: Reduce) -> None:
    printed = [recorded.said("stream", name="stdout", text=f"{number}\n") for number in range(1000)]

    compacted = compact(reduce([recorded.said("status", execution_state="busy"), *printed]).requests["r"])

    assert [each["msg_type"] for each in compacted] == ["status", "stream"]
    assert compacted[1]["content"]["text"] == "".join(f"{number}\n" for number in range(1000))


def test_a_queued_request_has_no_messages(recorded: Recorded, reduce: Reduce) -> None:
    assert compact(reduce([recorded.asked("r")]).requests["r"]) == []


def test_messages_answer_the_original_request_and_tell_their_seq(recorded: Recorded, reduce: Reduce) -> None:
    request = reduce(
        [
            recorded.asked("r", "code"),
            recorded.said("status", execution_state="busy"),
            recorded.said("stream", name="stdout", text="a"),
            recorded.said("display_data", data={}, metadata={}, transient={"display_id": "d"}),
            recorded.said(
                "update_display_data", data={"text/plain": "new"}, metadata={}, transient={"display_id": "d"}
            ),
        ]
    ).requests["r"]

    compacted = compact(request)

    assert {each["parent_header"]["msg_id"] for each in compacted} == {"r"}
    assert [each["metadata"]["jupyter_tpu"]["seq"] for each in compacted] == [2, 3, 4]
    assert compacted[-1]["content"]["data"] == {"text/plain": "new"}
    assert [each["header"]["msg_type"] for each in compacted] == ["status", "stream", "display_data"]
