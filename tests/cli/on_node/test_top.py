"""`top`, `who` and `free` in a terminal."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from agent_processes import agent_stopped

from jupyter_tpu.cli.on_node.node_chips import holder_text, notify_if_slow
from jupyter_tpu.cli.on_node.processes import is_released
from jupyter_tpu.cli.on_node.top import screen
from jupyter_tpu.metrics import Chip, Core, Holder, Host, Sample

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"
GIB = 2**30
PATIENCE_S = 90


@contextmanager
def program_with_the_chips(terminal: Terminal, node: str, worker: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Somebody at work on the node, in another window."""
    holder = terminal.start("ssh", node, "--worker", str(worker), "--", "emulated-tpu run sleep 1000")
    try:
        yield holder
    finally:
        holder.terminate()
        holder.communicate(timeout=60)


def test_the_chips_of_a_node_are_shown_named_and_freed(terminal: Terminal) -> None:
    terminal.tpu("create", "busy", "--zone", ZONE, "--type", "v5litepod-8", "--yes")
    assert terminal.tpu("release", "busy", "--yes").stdout == "No process uses the chips.\n"
    nobody = terminal.tpu("release", "busy", "--yes", "--pid", "999999")
    assert (nobody.returncode, nobody.stdout) == (1, "Process 999999 does not use the chips.\n")

    terminal.cloud.set_metrics("busy", duty_percent=[12.5], memory_percent=[25])
    with program_with_the_chips(terminal, "busy"):
        shown = terminal.tpu_until("CORE", "top", "busy")
        assert "12.5 %" in shown
        assert "4.0 of 16.0 GiB" in shown
        (holder,) = terminal.tpu_json("ps", "busy")["workers"][0]["holders"]
        assert (holder["command"], holder["is_own_user"]) == ("sleep 1000", True)

        unconfirmed = terminal.tpu("release", "busy")
        assert (unconfirmed.returncode, f"process {holder['pid']}" in unconfirmed.stderr) == (1, True)
        freed = terminal.tpu_json("release", "busy", "--yes", "--pid", str(holder["pid"]))
        assert ([each["pid"] for each in freed["freed"]], freed["left"]) == ([holder["pid"]], [])
    assert "no process is using the chips" in terminal.tpu("ps", "busy").stdout
    terminal.tpu("delete", "busy", "--yes")


@pytest.mark.nightly
def test_the_chips_of_all_workers_are_freed_together(terminal: Terminal) -> None:
    terminal.tpu("create", "wide", "--zone", "us-central2-b", "--type", "v4-16", "--yes")
    assert terminal.tpu("release", "wide", "--yes").stdout == "No process uses the chips.\n"
    with program_with_the_chips(terminal, "wide"), program_with_the_chips(terminal, "wide", 1):
        terminal.tpu_until("worker 0: process", "ps", "wide")
        terminal.tpu_until("worker 1: process", "ps", "wide")
        assert "worker 1: process" in terminal.tpu("release", "wide").stderr
        freed = terminal.tpu("release", "wide", "--yes")
        assert "ended worker 0: process" in freed.stdout
        assert "ended worker 1: process" in freed.stdout
    terminal.tpu("delete", "wide", "--yes")


@pytest.mark.nightly
def test_a_worker_that_does_not_answer_is_waited_for_in_words_and_fails_the_command(terminal: Terminal) -> None:
    terminal.tpu("create", "mute", "--zone", ZONE, "--type", "v5litepod-8", "--yes")
    assert terminal.tpu("ps", "mute").returncode == 0

    with agent_stopped(terminal.cloud.workers("mute")[0]["home"]):
        asked = terminal.start("ps", "mute")
        assert asked.stderr is not None
        assert any(line.startswith("Waiting for the agent on mute") for line in asked.stderr)
    asked.communicate(timeout=PATIENCE_S)
    assert asked.returncode == 0

    terminal.cloud.change_host_key("mute")
    who, top = terminal.tpu("ps", "mute"), terminal.tpu("top", "mute", "--json")
    assert (who.returncode, "worker 0" in who.stderr, top.returncode, '"is_complete": false' in top.stdout) == (
        1,
        True,
        1,
        True,
    )
    terminal.tpu("delete", "mute", "--yes")


async def test_who_waits_long_is_told_so() -> None:
    told = asyncio.Event()

    assert await notify_if_slow(told.wait(), told.set, after_s=0.0) is True


@pytest.mark.parametrize(
    ("pid", "freed", "left", "expected"),
    [
        (None, [], [], True),
        (None, [7], [], True),
        (None, [7], [8], False),
        (None, [], [8], False),
        (7, [7], [8], True),
        (7, [], [8], False),
        (7, [], [], False),
    ],
)
def test_free_succeeds_only_if_what_was_wished_has_come_about(
    pid: int | None, freed: list[int], left: list[int], expected: bool
) -> None:
    view = {"freed": [{"pid": each} for each in freed], "left": [{"pid": each} for each in left]}

    assert is_released(view, pid) is expected


def test_another_users_process_is_ended_only_by_its_number(terminal: Terminal) -> None:
    refused = terminal.tpu("release", "busy", "--yes", "--force")

    assert (refused.returncode, "--force needs --pid" in refused.stderr) == (1, True)


# -- what is shown


def view_of(sample: Sample | None, **worker: Any) -> dict[str, Any]:
    shown = {"worker_id": 0, "hostname": "t1v", "as_of": 90.0, "error": None, "history": None, **worker}
    return {
        "as_of": 100.0,
        "accelerator_type": "v3-8",
        "workers": [{**shown, "sample": sample.to_json() if sample else None}],
    }


def test_what_is_not_known_is_shown_as_unknown_with_the_reason() -> None:
    sample = Sample(
        at=90.0,
        state="measured",
        duty_per="chip",
        chips=(Chip(chip=0, duty_percent=50.0),),
        cores=(Core(core=0, chip=0, hbm_used_bytes=GIB, hbm_total_bytes=16 * GIB), Core(core=1, chip=0)),
        unknown={"tensorcore_percent": "needs libtpu's SDK"},
        host=Host(cpus=96, memory_used_bytes=GIB, memory_total_bytes=2 * GIB),
    )
    lines = list(screen("mine", view_of(sample)))

    assert lines[2] == "worker 0 t1v: CPU unknown of 96, memory 1.0 of 2.0 GiB, disk unknown"
    assert [" ".join(line.split()) for line in lines[3:6]] == [
        "CORE CHIP DUTY CYCLE OF THE CHIP HBM",
        "0 0 50.0 % 1.0 of 16.0 GiB",
        "1 0 50.0 % unknown",
    ]
    assert lines[6] == "  TensorCore: unknown, needs libtpu's SDK"


def test_a_worker_that_does_not_answer_shows_the_age_of_what_it_said() -> None:
    error = {"message": "The link is down."}

    assert "worker 0 t1v: The link is down." in list(screen("mine", view_of(None, error=error)))
    old = list(screen("mine", view_of(Sample(at=1.0, state="idle", reason="nobody"), error=error)))
    assert "  last updated 10 s ago: The link is down." in old


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (Holder(pid=7, kernel_id="k", notebook="a.ipynb", is_kernel=True), "process 7, the kernel of a.ipynb"),
        (
            Holder(pid=7, user="me", command="python a.py", kernel_id="k", notebook="a.ipynb"),
            "process 7 of me, started by the kernel of a.ipynb (python a.py)",
        ),
        (Holder(pid=7, kernel_id="k1", is_kernel=True), "process 7, the kernel k1"),
        (Holder(pid=7, user="you"), "process 7 of you"),
        (Holder(pid=7, command="a\x1b[2Jb"), "(a[2Jb)"),
    ],
)
def test_a_holder_is_named_by_what_is_known_of_it(holder: Holder, text: str) -> None:
    assert text in holder_text(holder)
