"""How far a request is, what it waits for, and what several of them do to one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.outputs import Reducer, render

if TYPE_CHECKING:
    from conftest import Recorded

Reduce = Callable[..., Reducer]
BUSY = {"execution_state": "busy"}
IDLE = {"execution_state": "idle"}


def test_a_request_is_queued_then_running_then_done(recorded: Recorded, reduce: Reduce) -> None:
    entries = [
        recorded.asked("r", "1 + 1", "cell-1"),
        recorded.said("status", **BUSY),
        recorded.said("execute_input", code="1 + 1", execution_count=3),
        recorded.replied(status="ok", execution_count=3),
        recorded.said("status", **IDLE),
    ]

    states = [reduce(entries[:length]).requests["r"].state for length in range(1, 6)]
    request = reduce(entries).requests["r"]

    assert states == ["queued", "running", "running", "running", "done"]
    assert (request.status, request.execution_count, request.code, request.cell_id) == ("ok", 3, "1 + 1", "cell-1")
    assert (request.session, request.first_seq, request.last_seq) == ("kernel-session", 1, 5)


def test_reply_and_idle_come_in_any_order(recorded: Recorded, reduce: Reduce) -> None:
    request = reduce(
        [
            recorded.asked("r"),
            recorded.said("execute_input", code="", execution_count=1),
            recorded.said("error", ename="E", evalue="e", traceback=[]),
            recorded.said("status", **IDLE),
            recorded.replied(status="error", execution_count=1),
        ]
    ).requests["r"]

    assert (request.state, request.status) == ("done", "error")


@pytest.mark.parametrize("reply_is_kept", [True, False])
def test_a_request_that_an_error_before_it_has_stopped_is_aborted(
    recorded: Recorded, reduce: Reduce, reply_is_kept: bool
) -> None:
    reply = [recorded.replied(status="aborted")] if reply_is_kept else []
    entries = [recorded.asked("r"), recorded.said("status", **BUSY), *reply, recorded.said("status", **IDLE)]

    request = reduce(entries).requests["r"]

    assert (request.state, request.status, request.execution_count) == ("aborted", "aborted", None)


def test_a_silent_request_that_has_ended_is_done(recorded: Recorded, reduce: Reduce) -> None:
    entries = [recorded.asked("r", silent=True), recorded.said("status", **BUSY), recorded.said("status", **IDLE)]

    assert reduce(entries).requests["r"].state == "done"


def test_the_end_of_the_kernel_ends_what_it_was_asked_and_not_what_comes_later(
    recorded: Recorded, reduce: Reduce
) -> None:
    requests = reduce(
        [
            recorded.event("started", generation=1),
            recorded.asked("done"),
            recorded.said("execute_input", "done", code="", execution_count=1),
            recorded.said("status", "done", **IDLE),
            recorded.asked("running"),
            recorded.said("status", "running", **BUSY),
            recorded.said("stream", "running", name="stdout", text="so far"),
            recorded.asked("queued"),
            recorded.event("exited", generation=1),
            recorded.asked("later"),
            recorded.event("started", generation=2),
        ]
    ).requests

    states = {name: request.state for name, request in requests.items()}
    assert states == {"done": "done", "running": "lost", "queued": "lost", "later": "queued"}
    assert requests["running"].status == "lost"
    assert render(requests["running"]).outputs[0]["text"] == "so far"


def test_an_input_request_waits_until_it_is_answered(recorded: Recorded, reduce: Reduce) -> None:
    entries = [
        recorded.asked("r"),
        recorded.said("status", **BUSY),
        recorded.wants_input(input_id="input-1", prompt="name? ", password=False),
        recorded.input_came("some-other-input"),
        recorded.input_came("input-1"),
        recorded.wants_input(input_id="input-2", prompt="age? ", password=False),
        recorded.input_came(),
    ]

    prompts = []
    for length in range(1, len(entries) + 1):
        waiting = reduce(entries[:length]).requests["r"].input
        prompts.append(waiting.content["prompt"] if waiting else None)

    assert prompts == [None, None, "name? ", "name? ", None, "age? ", None]


def test_an_answer_stays_as_a_line_of_its_cell_as_jupyterlab_writes_it(recorded: Recorded, reduce: Reduce) -> None:
    request = reduce(
        [
            recorded.asked("r"),
            recorded.said("stream", name="stdout", text="hello\n"),
            recorded.wants_input(prompt="name?", password=False),
            recorded.input_came(status="ok", value="Ada"),
            recorded.said("stream", name="stdout", text="again\n"),
            recorded.wants_input(prompt="secret?", password=True),
            recorded.input_came(),
            recorded.wants_input(prompt="of an older agent?", password=False),
            recorded.input_came(),
        ]
    ).requests["r"]

    assert [(each["name"], each["text"]) for each in render(request).outputs] == [
        ("stdout", "hello\n"),
        ("stdin", "name? Ada\n"),
        ("stdout", "again\n"),
        ("stdin", "secret? ········\n"),
    ]


@pytest.mark.parametrize("end", ["idle", "exited"])
def test_an_input_request_ends_with_its_request(recorded: Recorded, reduce: Reduce, end: str) -> None:
    ending = recorded.said("status", **IDLE) if end == "idle" else recorded.event("exited", generation=1)

    request = reduce([recorded.asked("r"), recorded.wants_input(prompt="", password=True), ending]).requests["r"]

    assert request.input is None


def test_an_update_reaches_the_displays_of_all_requests(recorded: Recorded, reduce: Reduce) -> None:
    def shown(kind: str, msg_id: str, text: str) -> tuple[str, list[bytes]]:
        data = {"text/plain": text}
        return recorded.said(kind, msg_id, data=data, metadata={}, transient={"display_id": "d"})

    requests = reduce(
        [
            recorded.asked("a"),
            recorded.asked("b"),
            recorded.asked("c"),
            shown("display_data", "a", "1"),
            shown("display_data", "b", "2"),
            shown("update_display_data", "c", "3"),
        ]
    ).requests

    data = {name: [output["data"] for output in render(request).outputs] for name, request in requests.items()}
    assert data == {"a": [{"text/plain": "3"}], "b": [{"text/plain": "3"}], "c": []}


def test_an_update_by_a_widget_reaches_the_display(recorded: Recorded, reduce: Reduce) -> None:
    named = {"metadata": {}, "transient": {"display_id": "d"}}
    update = recorded.entry(
        "iopub", "update_display_data", {"data": {"text/plain": "2"}, **named}, {"msg_id": "w", "msg_type": "comm_msg"}
    )

    reducer = reduce([recorded.asked("r"), recorded.said("display_data", data={"text/plain": "1"}, **named), update])

    assert render(reducer.requests["r"]).outputs[0]["data"] == {"text/plain": "2"}
    assert list(reducer.requests) == ["r"]


def test_help_texts_are_shown_as_displays(recorded: Recorded, reduce: Reduce) -> None:
    page = {"source": "page", "data": {"text/plain": "help"}, "start": 0}

    request = reduce([recorded.asked("r"), recorded.replied(status="ok", payload=[{"source": "x"}, page])]).requests[
        "r"
    ]

    assert render(request).outputs == [{"output_type": "display_data", "data": {"text/plain": "help"}, "metadata": {}}]


def test_a_request_whose_beginning_is_no_longer_kept_is_known_by_its_messages(
    recorded: Recorded, reduce: Reduce
) -> None:
    request = reduce([recorded.said("stream", name="stdout", text="rest"), recorded.said("status", **IDLE)]).requests[
        "r"
    ]

    assert (request.state, request.session, request.cell_id) == ("done", "page-session", None)


def test_output_after_the_end_of_a_request_still_belongs_to_it(recorded: Recorded, reduce: Reduce) -> None:
    request = reduce(
        [recorded.asked("r"), recorded.said("status", **IDLE), recorded.said("stream", name="stdout", text="thread")]
    ).requests["r"]

    assert render(request).outputs[0]["text"] == "thread"


def test_messages_of_other_parents_are_counted_and_change_nothing(recorded: Recorded, reduce: Reduce) -> None:
    foreign = recorded.entry("iopub", "status", BUSY, {"msg_id": "k", "msg_type": "kernel_info_request"})

    reducer = reduce([recorded.asked("r"), foreign, recorded.entry("iopub", "stream", {"name": "a", "text": "b"}, {})])

    assert (list(reducer.requests), reducer.requests["r"].state, reducer.foreign) == (["r"], "queued", 2)


def test_comms_are_counted_and_change_nothing(recorded: Recorded, reduce: Reduce) -> None:
    reducer = reduce(
        [
            recorded.asked("r"),
            recorded.said("comm_open", comm_id="c", target_name="jupyter.widget", data={"state": {}}),
            recorded.said("comm_msg", comm_id="c", data={"method": "update"}),
            recorded.said("comm_close", comm_id="c", data={}),
        ]
    )

    assert (reducer.comms, reducer.skipped, render(reducer.requests["r"]).outputs) == (3, 0, [])


@pytest.mark.parametrize(
    ("arrived", "shown"), [(0, "before inside outside"), (4, "before inside outside"), (99, "before outside")]
)
def test_what_an_output_widget_has_taken_in_a_page_is_not_in_the_cell_as_well(
    recorded: Recorded, reduce: Reduce, arrived: int, shown: str
) -> None:
    def captures(msg_id: str) -> tuple[str, list[bytes]]:
        return recorded.said("comm_msg", comm_id="o", data={"method": "update", "state": {"msg_id": msg_id}})

    def arrived_at(session: str) -> int:
        return arrived if session == "kernel-session" else 1000

    request = reduce(
        [
            recorded.asked("r"),
            recorded.said("stream", name="stdout", text="before "),
            recorded.said("comm_open", comm_id="o", data={"state": {"_model_name": "OutputModel", "msg_id": ""}}),
            captures("r"),
            recorded.said("stream", name="stdout", text="inside "),
            captures(""),
            recorded.said("stream", name="stdout", text="outside"),
        ],
        arrived=arrived_at,
    ).requests["r"]

    assert (request.captured, render(request).outputs[0]["text"]) == (1, shown)


def test_a_gap_is_told_where_it_is(recorded: Recorded, reduce: Reduce) -> None:
    request = reduce(
        [
            recorded.asked("r"),
            recorded.said("stream", name="stdout", text="1\n"),
            recorded.event("gap", messages=7, reason="the agent was ended"),
            recorded.said("stream", name="stdout", text="9\n"),
        ]
    ).requests["r"]

    assert [output["text"] for output in render(request).outputs] == [
        "1\n",
        "[7 messages of this kernel were lost: the agent was ended]\n",
        "9\n",
    ]
