"""What was run on a kernel is noted on this machine, outlives the server, and is moved aside when the node is lost."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.kernels.kernel_host import Loss
from jupyter_tpu.kernels.messages.execution_log import MOST_CODE, ExecutionLog, LoggedRun
from jupyter_tpu.kernels.messages.execution_watch import ExecutionWatch
from jupyter_tpu.kernels.node_recovery import progress_of, view_of
from jupyter_tpu.lifecycle.recovery_state import Recovery
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.node_end import EndCause, NodeEnd

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite", spot=True)


def run(msg_id: str, **rest: Any) -> LoggedRun:
    return LoggedRun(**{"msg_id": msg_id, "cell_id": f"cell-{msg_id}", "code": f"run({msg_id!r})", **rest})


MakeLog = Callable[..., ExecutionLog]


@pytest.fixture
def new_log(tmp_path: Path) -> Iterator[MakeLog]:
    """Makes logs of one kernel, which are closed with the test."""
    made: list[ExecutionLog] = []

    def make(**options: Any) -> ExecutionLog:
        made.append(ExecutionLog(tmp_path, "k1", **options))
        made[-1].begin()
        return made[-1]

    yield make
    for log in made:
        log.close()


def lost(log: ExecutionLog, at: float = 100.0) -> dict[str, tuple[str, int]]:
    """State and outputs of each, as they are offered."""
    log.lose("It was taken away.", at)
    found = log.lost()
    assert found
    return {each.msg_id: (each.state, each.outputs) for each in found.runs}


def test_each_run_is_kept_with_its_state_and_its_outputs(new_log: MakeLog) -> None:
    log = new_log()
    for msg_id in ("a", "b", "c", "d"):
        log.add(run(msg_id))
    log.move("a", "running")
    log.move("a", outputs=1)
    log.move("a", "ok")
    log.move("b", "error")
    log.move("c", "running")
    for _ in range(40):
        log.move("c", outputs=1)
    log.move("unknown", "ok")

    assert lost(log) == {"a": ("ok", 1), "b": ("error", 0), "c": ("running", 40), "d": ("queued", 0)}
    assert not log.is_open("c")


def test_a_server_that_is_killed_leaves_all_that_it_had_heard(tmp_path: Path, new_log: MakeLog) -> None:
    killed = new_log()
    killed.add(run("a"))
    killed.move("a", "running", outputs=7)
    with (tmp_path / "k1.log").open("ab") as file:
        file.write(b'{"state": "queued ", "outp')  # a line that was cut by the kill

    following = ExecutionLog(tmp_path, "k1")
    following.resume()
    following.move("a", outputs=1)
    following.add(run("b"))

    assert lost(following) == {"a": ("running", 8), "b": ("queued", 0)}
    following.close()


def test_a_server_that_follows_knows_which_node_was_lost_until_a_kernel_runs_on_another(
    tmp_path: Path, new_log: MakeLog
) -> None:
    killed = new_log()
    killed.add(run("a", node="tpu-1-0"))
    killed.lose("It was taken away.", 1.0)
    assert ran_on_for_the_next(tmp_path) == "tpu-1-0"
    killed.note_successor()
    assert ran_on_for_the_next(tmp_path) == ""


def ran_on_for_the_next(folder: Path) -> str:
    following = ExecutionLog(folder, "k1")
    following.resume()
    following.close()
    return following.ran_on


def test_a_new_process_knows_nothing_of_what_ran_before(new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("a"))
    log.begin()
    log.lose("It was taken away.", 1.0)

    assert log.lost() is None


def test_what_was_lost_waits_for_an_answer(tmp_path: Path, new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("a"))
    assert lost(log) == {"a": ("queued", 0)}
    log.begin()
    log.lose("Nothing had run.", 2.0)
    found = ExecutionLog(tmp_path, "k1").lost()
    assert found
    assert (found.lost_at, found.reason) == (100.0, "It was taken away.")
    log.settle()
    assert log.lost() is None


@pytest.mark.parametrize("is_same_kernel", [True, False])
def test_a_loss_without_runs_names_the_newest_cause_of_the_cells_that_still_wait(
    tmp_path: Path, new_log: MakeLog, is_same_kernel: bool
) -> None:
    first = new_log()
    first.notebook = "/home/me/a.ipynb"
    first.add(run("a"))
    first.lose("You deleted my-node.", 1.0)
    first.note_successor()
    log = first if is_same_kernel else ExecutionLog(tmp_path, "k2")
    for at in (2.0, 3.0):
        log.begin()
        log.notebook = first.notebook
        log.lose(f"It was pre-empted at {at}.", at)
        log.lose("A restarted server found it gone.", 9.0)
        found = log.offered()
        assert found
        assert (found.lost_at, found.reason, found.earlier_at) == (at, f"It was pre-empted at {at}.", 1.0)
        assert [each.msg_id for each in found.runs] == ["a"]
        log.note_successor()

    log.add(run("b"))
    log.lose("It was pre-empted.", 4.0)
    found = log.offered()
    assert found
    assert (found.earlier_at, [each.msg_id for each in found.runs]) == (None, ["a", "b"])
    log.close()


def test_a_second_loss_offers_what_ran_again_and_then_what_was_left(new_log: MakeLog) -> None:
    log = new_log()
    for msg_id in ("a", "b", "c"):
        log.add(run(msg_id))
    log.lose("It was taken away.", 1.0)
    log.add(run("a2", cell_id="cell-a"))

    assert list(lost(log, 2.0)) == ["a2", "b", "c"]


def test_a_second_loss_keeps_the_order_in_which_the_cells_first_ran(new_log: MakeLog) -> None:
    log = new_log()
    for msg_id in ("import", "train", "plot"):
        log.add(run(msg_id))
    log.lose("It was taken away.", 1.0)
    for msg_id in ("import2", "train2"):
        log.add(run(msg_id, cell_id=f"cell-{msg_id[:-1]}"))
    log.add(run("save"))

    assert list(lost(log, 2.0)) == ["import2", "train2", "plot", "save"]


def test_losses_of_several_kernels_of_a_notebook_add_up_until_they_are_answered(
    tmp_path: Path, new_log: MakeLog
) -> None:
    logs = [new_log(), *(ExecutionLog(tmp_path, name) for name in ("k2", "k3"))]
    for at, log in enumerate(logs[:2]):
        log.begin()
        log.notebook = "/home/me/a.ipynb"
        log.add(run(f"only-{at}"))
        log.add(run(f"both-{at}", cell_id="cell-both"))
        log.lose("It was taken away.", float(at))
        log.remove()
    now = logs[2]
    now.begin()
    now.notebook = logs[0].notebook
    found = now.offered()
    assert found
    assert ([each.msg_id for each in found.runs], found.lost_at) == (["only-0", "only-1", "both-1"], 1.0)

    now.settle()
    assert now.offered() is None
    now.remove()
    assert list(tmp_path.iterdir()) == []


def test_cells_that_ran_again_are_offered_no_more_even_after_a_restart(tmp_path: Path, new_log: MakeLog) -> None:
    log = new_log()
    for msg_id in ("a", "b"):
        log.add(run(msg_id))
    log.lose("It was taken away.", 1.0)
    for msg_id, state in (("a2", "ok"), ("b2", "error")):
        log.add(run(msg_id, cell_id=f"cell-{msg_id[0]}"))
        log.move(msg_id, state)
    found = log.offered()
    assert found
    assert [each.msg_id for each in found.runs] == ["b"]

    log.add(run("b3", cell_id="cell-b"))
    log.move("b3", "ok")
    assert log.offered() is None
    log.begin()
    assert log.offered() is None


def test_long_code_is_cut_and_many_runs_push_out_the_oldest(tmp_path: Path, new_log: MakeLog) -> None:
    log = new_log(most_bytes=2 * MOST_CODE)
    log.add(run("long", code="x" * (MOST_CODE + 1)))
    log.add(run("more", code="y" * MOST_CODE))
    log.add(run("last", code="z"))
    log.move("last", "ok")
    size = (tmp_path / "k1.log").stat().st_size
    log.lose("It was taken away.", 1.0)
    found = log.lost()

    assert size <= 2 * MOST_CODE
    assert found
    assert [(each.msg_id, each.state) for each in found.runs] == [("more", "queued"), ("last", "ok")]


def test_code_that_is_too_long_is_marked(new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("long", code="é" * (MOST_CODE + 1)))
    log.lose("It was taken away.", 1.0)
    found = log.lost()
    assert found
    assert (len(found.runs[0].code), found.runs[0].is_whole) == (MOST_CODE, False)


def test_a_kernel_takes_its_log_with_it_but_not_what_it_lost(tmp_path: Path, new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("a"))
    log.remove()
    assert list(tmp_path.iterdir()) == []
    log.begin()
    log.add(run("b"))
    log.lose("It was taken away.", 1.0)
    log.add(run("c"))
    log.remove()
    log.move("c", "ok")
    log.add(run("d"))
    assert [path.name for path in tmp_path.iterdir()] == ["k1.lost"]


def test_another_kernel_of_the_notebook_offers_what_was_lost_until_it_is_answered(
    tmp_path: Path, new_log: MakeLog
) -> None:
    log = new_log()
    log.notebook = "/home/me/a.ipynb"
    log.add(run("a"))
    log.lose("It was taken away.", 100.0)
    log.remove()
    next_one, other = ExecutionLog(tmp_path, "k2"), ExecutionLog(tmp_path, "k3")
    next_one.notebook, other.notebook = log.notebook, "/home/me/b.ipynb"
    found = next_one.offered()
    assert found
    assert [each.msg_id for each in found.runs] == ["a"]
    assert (other.offered(), next_one.lost()) == (None, None)

    other.settle()
    assert next_one.offered() == found
    next_one.settle()
    assert next_one.offered() is None
    assert list(tmp_path.iterdir()) == []


def test_what_was_lost_is_offered_for_thirty_days(tmp_path: Path, new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("a"))
    log.lose("It was taken away.", 100.0)
    log.remove()
    path, day_s = tmp_path / "k1.lost", 86_400
    for days, is_there in ((29, True), (31, False)):
        os.utime(path, (time.time() - days * day_s,) * 2)
        assert (log.offered() is not None, path.exists()) == (is_there, is_there)


def test_a_disk_that_takes_nothing_stops_only_the_notes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    log = ExecutionLog(tmp_path / "file", "k1")
    log.begin()
    log.begin()
    log.add(run("a"))
    log.move("a", "ok")
    assert len(caplog.records) == 1
    assert "are no longer logged" in caplog.text


def message(kind: str, content: Any, parent: str = "", *, msg_id: str = "m", cell_id: str = "") -> list[bytes]:
    frames = ({"msg_type": kind, "msg_id": msg_id}, {"msg_id": parent} if parent else {}, {"cellId": cell_id}, content)
    return [b"identity", b"<IDS|MSG>", b"", *(json.dumps(frame).encode() for frame in frames)]


def test_what_passes_is_noted_whoever_asked(new_log: MakeLog) -> None:
    log = new_log()
    watch = ExecutionWatch(log)
    watch.node = lambda: "tpu-1-w0"
    silent = {"code": "hidden", "silent": True}
    for msg_id, content in (("a", {"code": "1"}), ("b", {"code": "2"}), ("s", silent), ("e", {"code": " "})):
        watch.observe("request", message("execute_request", content, msg_id=msg_id, cell_id=f"cell-{msg_id}"))
    watch.observe("request", message("kernel_info_request", {}, msg_id="i"))
    watch.observe("event", [b'{"event": "started"}'])
    watch.observe("iopub", [b"no message"])
    watch.observe("iopub", message("execute_input", {}, "a"))
    watch.observe("iopub", message("stream", {"text": "hello"}, "a"))
    watch.observe("iopub", message("status", {"execution_state": "idle"}, "a"))
    watch.observe("shell", message("execute_reply", {"status": "ok"}, "a"))
    watch.observe("iopub", message("stream", {"text": "late"}, "a"))
    watch.observe("iopub", message("execute_input", {}, "b"))
    watch.observe("iopub", message("display_data", {}, "b"))
    assert watch.ran_on == "tpu-1-w0"
    assert lost(log) == {"a": ("ok", 1), "b": ("running", 1)}


async def test_what_ended_while_no_server_looked_is_asked_of_the_record(new_log: MakeLog) -> None:
    log = new_log()
    for msg_id in ("a", "b", "c"):
        log.add(run(msg_id))
    listed = [
        {"msg_id": "a", "state": "done", "status": "ok", "messages": 9},
        {"msg_id": "b", "state": "running", "status": None, "messages": 8},
        {"msg_id": "x", "state": "done", "status": "ok", "messages": 9},
    ]

    async def call(method: str, params: Any) -> Any:
        assert (method, params) == ("list_requests", {})
        return {"requests": listed}

    await ExecutionWatch(log).update_from_record(call)
    assert lost(log) == {"a": ("ok", 0), "b": ("running", 5), "c": ("queued", 0)}


def choice(**changes: Any) -> Recovery:
    return replace(Recovery(choice_id="c", spec=SPEC, uid="1", was_ready=True), **changes)


END = NodeEnd(node=SPEC.name, why=EndCause(cause="preempted"), at=90.0, is_deleted=True)


def test_why_the_node_ended_is_kept_with_what_it_had_run(new_log: MakeLog) -> None:
    log = new_log()
    log.add(run("a"))
    log.lose(END.message, 90.0, END.to_json())
    found = log.lost()
    assert found
    assert found.end == END.to_json()


LOSS = Loss(host_key_alias="tpu-1-w0", at=90.0, known_at=100.0, end=END)


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (None, "no"),
        (choice(is_on=False, phase="off"), "no"),
        (choice(phase="given_up"), "no"),
        (choice(phase="clearing"), "coming"),
        (choice(phase="waiting"), "coming"),
        (choice(phase="making"), "coming"),
        (choice(), "coming"),  # not seen yet
        (choice(was_ready=False), "no"),  # its user has stopped it
        (choice(uid="2"), "ready"),
    ],
)
def test_a_kernel_waits_for_a_node_that_comes_back(standing: Recovery | None, expected: str) -> None:
    assert progress_of(standing, LOSS, 0, 110.0) == expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (choice(attempts=2), 1),  # the loss was not noticed yet, and what was attempted before does not count
        (choice(phase="clearing"), 1),
        (choice(phase="waiting", attempts=3, earlier_attempts=2), 2),
        (choice(phase="making", attempts=3, earlier_attempts=2), 1),
        (choice(uid="2", attempts=3, earlier_attempts=2), 1),  # it has succeeded, and the kernel starts
        (choice(phase="given_up", attempts=3), 3),
        (choice(is_on=False, phase="off"), None),
        (choice(was_ready=False), None),
    ],
)
def test_the_line_above_a_notebook_counts_the_attempts_for_this_loss(standing: Recovery, expected: int | None) -> None:
    view = view_of(standing, LOSS, 0, 110.0)
    assert (view and view["attempt"]) == expected


def test_a_node_that_its_user_stopped_is_not_said_to_be_recreated() -> None:
    stopped = replace(LOSS, end=replace(END, why=EndCause(cause="stop")))
    assert view_of(choice(), stopped, 0, 110.0) is None


def test_a_kernel_does_not_wait_for_ever() -> None:
    assert progress_of(choice(), LOSS, 0, 1000.0) == "no"


def test_where_nobody_knows_which_node_it_was_the_time_tells() -> None:
    unknown = replace(LOSS, host_key_alias="")
    assert progress_of(choice(since=101.0), unknown, 0, 110.0) == "ready"
    assert progress_of(choice(since=50.0), unknown, 0, 110.0) == "coming"
