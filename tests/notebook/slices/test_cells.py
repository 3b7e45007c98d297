"""Cells of a kernel that is worker 0 of three; the tests share it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from raw_slice import RawSlice, SliceClient

UNASKED = "input() gets a reply only if worker 0 asks, too, but worker 0 has ended the cell"


@contextmanager
def another_front_end(running: RawSlice) -> Iterator[SliceClient]:
    """A front end with a session of its own."""
    other = SliceClient(BlockingKernelClient())
    other.client.load_connection_info(running.manager.get_connection_info())
    other.client.start_channels(hb=False)
    other.client.wait_for_ready(timeout=60)
    yield other
    other.client.stop_channels()


def test_a_cell_runs_on_every_worker_and_equal_output_is_said_once(shared_slice):
    ran = shared_slice.run("print('hello')\n2 + 2")
    assert ran.printed == "hello\n"
    assert ran.others == "workers 1, 2: same output"


def test_different_outputs_are_grouped(shared_slice):
    assert shared_slice.run("print(min(w, 1))").others == "workers 1, 2:\n1"


def test_a_silent_cell_shows_nothing(shared_slice):
    assert shared_slice.run("x = w").outputs == []


def test_a_cell_runs_only_on_the_workers_it_names(shared_slice):
    assert shared_slice.run("%%worker 0\nonly = 1\nprint('here')").others == ""
    ran = shared_slice.run("%%workers 1-2\nonly")
    assert ran.error == "NameError: name 'only' is not defined (workers 1, 2)"
    assert shared_slice.run("%%worker 0\nonly").outputs[0]["data"] == {"text/plain": "1"}


@pytest.mark.parametrize(
    ("cell", "reason"), [("%%worker 7\nmark = 1", "no worker 7"), ("%%workers a\n", "Invalid choice")]
)
def test_a_cell_that_names_no_worker_runs_nowhere(shared_slice, cell, reason):
    ran = shared_slice.run(cell)
    assert reason in ran.error
    assert "workers 0 to 2" in ran.error
    assert shared_slice.run("'mark' in globals()").others == "workers 1, 2: same output"


def test_each_other_worker_sends_one_output_message_about_a_silent_cell(shared_slice):
    shared_slice.run(
        "%%worker 0\nfrom jupyter_tpu.notebook.slices import current\nclient = current().cluster._client\n"
        "stream, heard = client._iopub_stream, []\nhandle = stream._recv_callback\n"
        "stream.on_recv(lambda frames: (heard.append(frames), handle(frames)), copy=False)"
    )
    shared_slice.run("x = w")
    ran = shared_slice.run(
        "%%worker 0\nstream.on_recv(handle, copy=False)\nprint(len(heard))\n"
        "while client._futures or client._output_futures: time.sleep(0.01)  # the client forgets cells"
    )
    assert ran.printed == "2\n"


@pytest.mark.parametrize(
    "cell", ["%%time\n%%worker 0\nmark = 1", "get_ipython().run_cell_magic('worker', '0', 'mark = 1')"]
)
def test_a_line_that_names_workers_below_another_line_runs_nothing(shared_slice, cell):
    ran = shared_slice.run(cell)
    assert ran.error.startswith("BadInput: %%worker must be the first line of its cell.")
    assert ran.others == "workers 1, 2: same error"
    assert shared_slice.run("'mark' in globals()").outputs[0]["data"] == {"text/plain": "False"}


def test_an_error_on_one_worker_fails_the_cell_and_keeps_the_output_of_the_others(shared_slice):
    ran = shared_slice.run("print('before')\nif w == 2: 1/0")
    assert ran.error == "ZeroDivisionError: division by zero (worker 2)"
    assert ran.printed == "before\n"
    assert ran.others.startswith("worker 1: same output\nworker 2: ZeroDivisionError: division by zero\nbefore\n")
    assert "1/0" in ran.others


def test_an_exit_by_the_system_function_is_an_error_as_in_any_notebook(shared_slice):
    assert shared_slice.run("import sys\nif w == 2: sys.exit(3)").error == "SystemExit: 3 (worker 2)"
    assert shared_slice.run("w // 9").others == "workers 1, 2: same output"


def test_the_same_error_everywhere_is_shown_once(shared_slice):
    ran = shared_slice.run("1/0")
    assert ran.error == "ZeroDivisionError: division by zero"
    assert ran.others == "workers 1, 2: same error"


def test_workers_that_another_workers_error_interrupts_are_one_quiet_group(shared_slice):
    # worker 0 ends while worker 2 still formats its traceback, which a second interrupt would end
    slow = "%%worker 2\nshell = get_ipython()\nformat = shell.InteractiveTB.structured_traceback\n"
    later = "lambda *each, **options: (time.sleep(1.5), format(*each, **options))[1]"
    shared_slice.run(f"{slow}shell.InteractiveTB.structured_traceback = {later}")
    ran = shared_slice.run("print('begun')\nif w == 1: 1/0\ntime.sleep(100)")
    shared_slice.run("%%worker 2\ndel shell.InteractiveTB.structured_traceback")
    assert ran.error == "ZeroDivisionError: division by zero (worker 1)"
    assert ran.others.startswith("worker 1: ZeroDivisionError: division by zero\n")
    assert ran.others.endswith("\nworker 2: interrupted")


def test_interrupted_workers_are_named_together(shared_slice):
    ran = shared_slice.run("if w == 0: 1/0\ntime.sleep(100)")
    assert ran.error == "ZeroDivisionError: division by zero"
    assert ran.others == "workers 1, 2: interrupted"


def test_await_works_on_every_worker(shared_slice):
    ran = shared_slice.run("import asyncio\nawait asyncio.sleep(0.01)\nprint('slept')")
    assert (ran.printed, ran.others) == ("slept\n", "workers 1, 2: same output")


@pytest.mark.parametrize("ask", ["input('name? ')", "__import__('getpass').getpass()"])
def test_a_question_is_asked_once_and_answered_everywhere(shared_slice, ask):
    assert shared_slice.run(f"print({ask} * (w + 1))", answer="ab").others == "worker 1:\nabab\nworker 2:\nababab"


@pytest.mark.parametrize("cell", ["if w: input()", "%%workers 1-2\ninput()"])
def test_a_question_that_worker_0_does_not_ask_ends_with_the_reason(shared_slice, cell):
    assert shared_slice.run(cell).error.startswith("EOFError: input() ")


def test_a_second_question_of_one_worker_only_ends_with_the_reason(shared_slice):
    ran = shared_slice.run("input()\nif w == 2: input()", answer="ab")
    assert ran.error == f"EOFError: {UNASKED} (worker 2)"


def test_shell_commands_run_on_every_worker(shared_slice):
    assert shared_slice.run("!echo worker $TPU_SLICE_WORKER").others == "worker 1:\nworker 1\nworker 2:\nworker 2"


def test_what_only_shows_is_shown_by_worker_0_alone(shared_slice):
    ran = shared_slice.run("%tpu --help")
    assert ran.outputs
    assert ran.others == ""
    assert shared_slice.run("%tpu --help\nprint('hello')").others == "workers 1, 2: same output"


def test_a_traceback_of_another_worker_names_the_cell_by_its_prompt(shared_slice):
    shared_slice.run("%tpu --help")  # counts on worker 0 only
    ran = shared_slice.run("if w == 1: 1/0")
    assert f"Cell In[{ran.reply['execution_count']}], line 1" in ran.others


def test_progress_bars_of_other_workers_are_plain_text(shared_slice):
    ran = shared_slice.run(
        "import warnings; warnings.simplefilter('ignore')\nfrom tqdm.auto import tqdm\n"
        "for _ in tqdm(range(w)): pass\nprint(w and 'notebook' in str(tqdm.__mro__))"
    )
    assert ran.others.endswith("\nFalse")
    assert "1/1 [" in ran.others


def test_twenty_thousand_equal_lines_fold_to_one(shared_slice):
    ran = shared_slice.run("for number in range(20_000): print('line', number)")
    assert ran.others == "workers 1, 2: same output"


def test_a_long_output_is_cut_and_is_whole_on_its_worker(shared_slice):
    ran = shared_slice.run("if w == 1:\n  for number in range(20_000): print('line', number)")
    assert "line 19999" in ran.others
    assert "characters left out in the middle; `%tpu logs --worker 1`" in ran.others
    assert len(ran.others) < 70_000
    whole = (shared_slice.folder / "worker1" / "output.txt").read_text()
    assert whole == "".join(f"line {number}\n" for number in range(20_000))


def test_a_full_disk_on_a_worker_does_not_keep_a_cell_from_ending(shared_slice):
    output = shared_slice.folder / "worker1" / "output.txt"
    output.unlink(missing_ok=True)
    output.symlink_to("/dev/full")
    for _ in range(2):
        ran = shared_slice.run("if w == 1:\n  for number in range(20_000): print('line', number)")
        assert (ran.error, "line 19999" in ran.others) == ("", True)
    output.unlink()


def test_a_stream_that_copies_its_text_is_recorded_once(shared_slice):
    shared_slice.run(
        "import io, sys\nstream, copy = sys.stdout, io.StringIO()\n"
        "class Tee(io.TextIOBase):\n  def write(self, text): copy.write(text); return stream.write(text)\n"
        "sys.stdout = Tee()"
    )
    ran = shared_slice.run("print('line', w)")
    shared_slice.run("sys.stdout = stream")
    assert ran.others == "worker 1:\nline 1\nworker 2:\nline 2"


@pytest.mark.parametrize("workers", ["", "%%worker 1\n"])
def test_cells_after_one_that_removes_a_stream_run(shared_slice, workers):
    assert not shared_slice.run(f"{workers}import sys\nsys.stdout = sys.stderr = None").error
    ran = shared_slice.run("print('line', w)")
    assert (ran.error, ran.printed, ran.others) == ("", "line 0\n", "worker 1:\nline 1\nworker 2:\nline 2")


def test_a_cell_that_clears_its_output_shows_the_last_output_of_each_worker(shared_slice):
    ran = shared_slice.run(
        "from IPython.display import clear_output\n"
        "for step in range(3):\n  clear_output(wait=True)\n  print('step', step, w)\n  display(step)"
    )
    assert ran.others == "worker 1:\nstep 2 1\n2\nworker 2:\nstep 2 2\n2"


@pytest.mark.parametrize(
    "cell",
    [
        "if w: display({'text/plain': object()}, raw=True)",
        "if w: display({'text/plain': 'shown', 'application/json': {1: 2, 'a': 3}}, raw=True)",
        "display({'text/plain': 'shown', 'application/json': {1: 2, 'a': 3}}, raw=True)",
        "if w: print('\\ud800')",
        "if w: raise ValueError('\\ud800')",
        "data = 0\nfor _ in range(2000 * w): data = [data]\nif w: display({'application/json': data}, raw=True)",
    ],
)
def test_a_cell_ends_whatever_its_output_is(shared_slice, cell):
    shared_slice.run(cell)
    assert shared_slice.run("w // 9").others == "workers 1, 2: same output"


def test_the_end_of_a_long_output_can_be_shown(shared_slice):
    shared_slice.run("if w == 2:\n  for number in range(20_000): print('row', number)")
    shown = shared_slice.run("%tpu logs 3 --worker 2").outputs[0]["data"]["text/plain"]
    assert shown.startswith("The last 3 lines of ")
    assert shown.splitlines()[-3:] == ["row 19997", "row 19998", "row 19999"]
    shown = shared_slice.run("%tpu logs 1 --worker 2").outputs[0]["data"]["text/plain"]
    assert shown.startswith("The last line of ")
    assert "Worker 7 is not one of the other workers" in shared_slice.run("%tpu logs --worker 7").error


def test_the_workers_are_listed(shared_slice):
    pids = shared_slice.run("import os\nprint(os.getpid())").others
    rows = shared_slice.run("%tpu workers").outputs[0]["data"]["text/plain"].splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["0", "ready"], ["1", "ready"], ["2", "ready"]]
    assert all(row.split()[2] in pids for row in rows[1:])


@pytest.mark.parametrize(("cell", "runs_here_only"), [("", False), ("%%worker 0\n", True), ("%%workers 0-2\n", False)])
def test_code_can_tell_whether_its_cell_runs_on_some_workers_only(shared_slice, cell, runs_here_only):
    ran = shared_slice.run(f"{cell}from jupyter_tpu.notebook.slices import runs_here_only\nprint(runs_here_only())")
    assert ran.printed == f"{runs_here_only}\n"


@pytest.mark.nightly  # waits ten seconds
def test_a_cell_that_runs_long_on_some_workers_says_that_it_may_wait_for_the_others(shared_slice):
    ran = shared_slice.run("%%worker 0\ntime.sleep(11)")
    assert "worker 0: still running. If the cell uses an array" in ran.outputs[0]["data"]["text/plain"]


def test_an_interrupt_reaches_every_worker(shared_slice):
    request = shared_slice.send("print('begun', flush=True)\nwhile True: pass")
    shared_slice.wait_for_output(request, "begun")
    shared_slice.interrupt()
    assert shared_slice.result(request).error == "KeyboardInterrupt: "
    assert shared_slice.run("1").others == "workers 1, 2: same output"


def test_an_interrupt_reaches_the_one_worker_that_is_busy(shared_slice):
    request = shared_slice.send("print('begun')\nif w == 2:\n  print('mine')\n  while True: pass")
    shared_slice.wait_for_output(request, "mine")
    shared_slice.interrupt()
    assert shared_slice.result(request).error == "KeyboardInterrupt: (worker 2)"
    assert shared_slice.run("1").others == "workers 1, 2: same output"


def test_a_cell_ends_however_often_it_is_interrupted(shared_slice):
    with another_front_end(shared_slice) as other:
        for _ in range(5):
            request = other.send("for _ in range(w): time.sleep(0.01)")
            for _ in range(10):
                other.client.control_channel.send(other.client.session.msg("interrupt_request", {}))
                other.client.get_control_msg(timeout=60)
            other.result(request)
        assert other.run("1").others == "workers 1, 2: same output"


def test_an_interrupt_reaches_a_worker_that_prepares_the_cell(shared_slice):
    shared_slice.run(
        "%%worker 1\nimport signal\nevents = get_ipython().events\ndef interrupt_once():\n"
        "  events.unregister('pre_execute', interrupt_once)\n  signal.raise_signal(signal.SIGINT)\n"
        "events.register('pre_execute', interrupt_once)"
    )
    assert shared_slice.run("if w == 1: time.sleep(1_000_000)").error == "KeyboardInterrupt: (worker 1)"


def test_a_failure_is_shown_while_the_others_run_and_ends_them_after_a_grace(shared_slice):
    request = shared_slice.send("if w == 1: 1/0\ntime.sleep(1_000_000)")
    shared_slice.wait_for_output(request, "worker 1: ZeroDivisionError")
    ran = shared_slice.result(request)
    assert ran.error == "ZeroDivisionError: division by zero (worker 1)"
    assert shared_slice.run("1").others == "workers 1, 2: same output"


def test_cells_after_an_error_run_on_every_worker(shared_slice):
    shared_slice.run("count = 0")
    for _ in range(5):
        shared_slice.run("count += 1\nif w == 1: 1/0")
        shared_slice.run("count += 1")
    assert shared_slice.run("count").others == "workers 1, 2: same output"


def test_a_checkpoint_hook_runs_on_every_worker_and_in_its_running_cell(shared_slice):
    path = str(shared_slice.folder / "hook")
    shared_slice.run(f"%%worker 0\nos.environ['JUPYTER_TPU_HOOK_SOCKET'] = {path!r}")
    shared_slice.run("import threading\nhas_run = threading.Event()")
    saved = shared_slice.run("%%tpu_on_preempt\nprint('saved by', w, flush=True)\nhas_run.set()")
    assert saved.others == "workers 1, 2: same output"

    begun = str(shared_slice.folder / "begun")
    report = f"socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'begun', {begun!r})"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(begun)
        agent.settimeout(60)
        request = shared_slice.send(f"import socket\nprint('begun', flush=True)\n{report}\nprint(has_run.wait(60))")
        for _ in range(3):  # what a hook prints is shown while a cell runs on its worker
            agent.recv(8)
        notice = {"notice_id": "1", "reason": "the budget is used up", "ends_in_s": 600}
        agent.sendto(json.dumps(notice).encode(), path)
    ran = shared_slice.result(request)

    assert ran.printed == "begun\nsaved by 0\nTrue\n"
    assert ran.others == "worker 1:\nbegun\nsaved by 1\nTrue\nworker 2:\nbegun\nsaved by 2\nTrue"
    only_here = shared_slice.run("%%worker 1\n%tpu_on_preempt --clear").others
    assert "Hook cleared" in only_here
    assert "on this worker only" in shared_slice.run("%%worker 1\n%%tpu_on_preempt\npass").others


def test_what_other_workers_print_between_cells_is_shown_in_the_next(shared_slice):
    folder = shared_slice.folder / "late"
    folder.mkdir()
    shared_slice.run(f"""
import pathlib, threading
folder = pathlib.Path({str(folder)!r})

def print_late():
    while not (folder / "go").exists(): time.sleep(0.01)
    print("late")
    (folder / str(w)).touch()

threading.Thread(target=print_late).start()
""")
    (folder / "go").touch()
    while not all((folder / str(worker)).exists() for worker in (1, 2)):
        pass
    assert shared_slice.run("%%worker 0\n1").others == ""
    assert shared_slice.run("print('now')").others == (
        "workers 1, 2: output since the last cell:\nlate\nworkers 1, 2: same output"
    )
    assert shared_slice.run("1").others == "workers 1, 2: same output"


def test_cells_of_two_front_ends_run_in_the_same_order_on_every_worker(shared_slice):
    shared_slice.run("ran = []")
    with another_front_end(shared_slice) as other:
        senders = [shared_slice, other] * 30
        for sender, request in [
            (sender, sender.send(f"ran.append({number})")) for number, sender in enumerate(senders)
        ]:
            sender.result(request)
    ran = shared_slice.run("print(len(ran), ran)")
    assert ran.printed.startswith("60 ")
    assert ran.others == "workers 1, 2: same output"
