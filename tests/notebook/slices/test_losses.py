"""Workers that are late, stuck or lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

EXITED = "The process of worker 1 ended, because a cell called exit(). Restart the kernel."
LOST = "The process of worker 1 ended or does not respond. Restart the kernel."
HANGS_AFTER_A_LOSS = (
    "import os, signal, time\nif os.environ.get('TPU_SLICE_WORKER'): os._exit(3)\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100)"
)


def test_the_first_cell_waits_for_the_workers_and_names_those_that_are_missing_or_different(make_slice):
    running = make_slice(2)
    request = running.send("print('ran')")
    running.wait_for_output(request, "1 of 2 workers are ready; waiting for worker 1.")
    (running.folder / "more" / "tiny_plots-1.0.dist-info").mkdir(parents=True)
    running.start_engines(PYTHONPATH=str(running.folder / "more"))
    ran = running.result(request)
    assert (ran.printed, ran.others) == ("ran\n", "worker 1: same output")
    # below worker 0's own output, as in later cells
    assert [ran.printed == each.get("text") for each in ran.outputs[-2:]] == [True, False]
    # other versions are named once
    different = "worker 1 differs from worker 0: tiny-plots 1.0 ≠ -"
    assert different in str(ran.outputs)
    assert different not in str(running.run("1").outputs)


@pytest.mark.nightly  # waits ten seconds
def test_workers_that_start_slowly_are_not_said_to_be_behind_a_firewall(make_slice):
    running = make_slice(2)
    request = running.send("1")
    running.wait_for_output(request, 'waiting for worker 1. Still starting: this may take a few minutes."')
    running.start_engines()
    assert running.result(request).error == ""


def test_what_formats_an_error_is_there_before_the_first_interrupt(make_slice):
    running = make_slice(2)
    running.start_engines()
    ran = running.run(
        "import sys, threading\nfor thread in threading.enumerate():\n"
        "    if thread.name == 'jupyter-tpu tracebacks': thread.join()\nbefore = {*sys.modules}"
    )
    assert ran.error == ""
    request = running.send("print('begun', flush=True)\nwhile True: pass")
    running.wait_for_output(request, "begun")
    running.interrupt()
    running.result(request)
    ran = running.run("print({*sys.modules} - before)")
    assert (ran.printed, ran.others) == ("set()\n", "worker 1: same output")


def test_a_lost_worker_is_named_at_once_and_nothing_runs_until_a_restart(make_slice):
    running = make_slice(2)
    running.start_engines()
    assert running.run("import os, time; w = int(os.environ.get('TPU_SLICE_WORKER', 0))").error == ""
    # one that can't be interrupted is named, and other cells are refused
    stuck = running.send("import signal\nif w: 1/0\nsignal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(12)")
    waiting = running.send("never = True")
    running.wait_for_output(stuck, "worker 0: still running, probably waiting for worker 1")
    assert running.result(waiting).error.startswith("WorkerBusy: worker 0: still running")
    assert running.run("never = True").error.startswith("WorkerBusy: worker 0: still running")
    assert running.result(stuck).error == "ZeroDivisionError: division by zero (worker 1)"
    assert running.run("print('never' in globals())").printed == "False\n"
    # its process ends while worker 0 runs
    request = running.send("%%worker 0\ntime.sleep(1)")
    running.result(request)
    running.engine_of(1).send_signal(signal.SIGKILL)
    while running.run("w").error != f"WorkerLost: {LOST}":
        pass
    assert running.run("%%worker 0\nw").error == ""


def test_a_worker_that_exits_is_lost_as_by_kill(make_slice):
    running = make_slice(2)
    running.start_engines()
    # as in any notebook, `sys.exit()` is an error, after which the process has all its variables
    ran = running.run("import os, sys, time\nw = int(os.environ.get('TPU_SLICE_WORKER', 0))\nif w: sys.exit()")
    assert ran.error == "SystemExit: (worker 1)"
    # shown while worker 0 still runs
    request = running.send("if w:\n  print('its output'); exit()\nelse: time.sleep(100)")
    running.wait_for_output(request, f"worker 1: WorkerLost: {EXITED}")
    ran = running.result(request)
    assert ran.error == f"WorkerLost: {EXITED}"
    assert "its output" in ran.others
    assert running.run("never = True").error == f"WorkerLost: {EXITED}"
    assert running.run("%%worker 0\nprint('never' in globals())").printed == "False\n"


@pytest.mark.nightly
def test_no_worker_is_called_lost_if_all_exit(make_slice):
    running = make_slice(2)
    running.start_engines()
    ran = running.run("print('the end')\nexit()")
    assert (ran.error, ran.printed, ran.others) == ("", "the end\n", "worker 1: same output")
    psutil.Process(running.manager.provisioner.pid).wait(60)
    running.engine_of(1).wait(60)


def test_a_worker_that_is_lost_in_a_cell_ends_it(make_slice):
    running = make_slice(2)
    running.start_engines()
    request = running.send("import os, time\nif os.environ.get('TPU_SLICE_WORKER'): os._exit(3)\ntime.sleep(100)")
    running.wait_for_output(request, f"worker 1: WorkerLost: {LOST}")
    assert running.result(request).error == f"WorkerLost: {LOST}"


def test_a_cell_and_the_next_say_how_a_worker_was_lost_as_soon_as_the_agent_knows(make_slice):
    running = make_slice(2)
    running.start_engines()
    how = "The process of worker 1 ended (exit code 3). Restart the kernel."
    state = json.dumps({"losses": {"1": f"{how} Its last output:\nthe end"}})
    ran = running.run(
        "import os, pathlib, time\nif os.environ.get('TPU_SLICE_WORKER'): os._exit(3)\n"
        f"time.sleep(1)\npathlib.Path({str(running.state_file)!r}).write_text({state!r})"
    )
    error = f"WorkerLost: {how} Its last output:\nthe end"
    assert (ran.error, ran.others) == (error, f"worker 1: {error}")
    assert running.run("1").error == error


@pytest.mark.parametrize("workers", ["", "%%worker 1\n"])
def test_cells_end_after_one_that_breaks_the_shell(make_slice, workers):
    running = make_slice(2)
    running.start_engines()
    breaks = "shell = get_ipython()\nshell.run_cell = shell.run_cell_async = None"
    assert not running.run(f"{workers}{breaks}").error
    assert running.run("1").error.startswith("TypeError: ")
    assert running.run("1").error.startswith("TypeError: ")


def test_a_lost_controller_ends_the_cell(make_slice):
    running = make_slice(2)
    running.start_engines()
    request = running.send("import time\nprint('begun', flush=True)\ntime.sleep(100)")
    running.wait_for_output(request, "begun")
    running.kill_controller()
    running.wait_for_output(request, f"worker 1: WorkerLost: {LOST}")
    assert running.result(request).error == f"WorkerLost: {LOST}"
    assert running.run("1").error == f"WorkerLost: {LOST}"


def test_a_controller_that_is_lost_before_the_engines_join_ends_the_cell(make_slice):
    running = make_slice(2)
    # worker 0 is connected to the controller
    wait = "import time\nwhile slices.current().cluster._controller_events is None: time.sleep(0.02)"
    assert running.run(f"%%worker 0\nfrom jupyter_tpu.notebook import slices\n{wait}").error == ""
    request = running.send("1")
    running.wait_for_output(request, "1 of 2 workers are ready; waiting for worker 1.")
    running.kill_controller()
    assert running.result(request).error == f"WorkerLost: {LOST}"


@pytest.mark.nightly
def test_a_kernel_that_hangs_after_a_loss_fails_its_cells_with_the_reason_and_ends(make_slice):
    running = make_slice(2, JUPYTER_TPU_LOST_WORKER_S="1")
    running.start_engines()
    request = running.send(HANGS_AFTER_A_LOSS)
    queued = running.send("print('never')")
    for each in (request, queued):
        assert running.result(each).error.startswith("WorkerLost: worker 1 is lost, and worker 0 waits for it")
    psutil.Process(running.manager.provisioner.pid).wait(60)


@pytest.mark.nightly
def test_the_cell_that_hangs_after_a_loss_gets_its_reply_from_ipykernel_6(make_slice, tmp_path):
    packages = tmp_path / "packages"
    install = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(packages)]
    subprocess.run([*install, "ipykernel<7"], check=True)
    running = make_slice(2, JUPYTER_TPU_LOST_WORKER_S="1", PYTHONPATH=str(packages))
    running.start_engines()
    assert running.run("import ipykernel\nprint(ipykernel.version_info[0])").printed == "6\n"
    assert running.run("1").others == "worker 1: same output"
    request = running.send(HANGS_AFTER_A_LOSS)
    assert running.result(request).error.startswith("WorkerLost: worker 1 is lost, and worker 0 waits for it")
    psutil.Process(running.manager.provisioner.pid).wait(60)


@pytest.mark.nightly
def test_a_frozen_machine_is_lost(make_slice):
    running = make_slice(2)
    running.start_engines()
    assert not running.run("import time").error
    engine = running.engine_of(1)
    frozen = [engine, *engine.children(recursive=True)]
    request = running.send("print('begun')\ntime.sleep(100)")
    running.wait_for_output(request, "begun")
    for each in frozen:
        each.suspend()
    running.wait_for_output(request, f"worker 1: WorkerLost: {LOST}")
    assert running.result(request).error == f"WorkerLost: {LOST}"


@pytest.mark.nightly
def test_eight_workers_start_and_run_cells_in_the_order_of_their_sending(make_slice):
    running = make_slice(8)
    running.start_engines()
    assert running.run("ran = []", timeout=300).error == ""
    requests = [running.send(f"ran.append({number})") for number in range(100)]
    running.result(requests[-1])
    assert running.run("print(ran == list(range(100)))").others == "workers 1-7: same output"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "flood",
    [
        "for n in range(10_000): print('x' * 10_000)",
        "print('x' * 100_000_000)",
        "from IPython.display import HTML, display\n  for n in range(1000): display(HTML('x' * 100_000))",
    ],
)
def test_an_interrupt_is_not_kept_waiting_by_another_workers_output(make_slice, flood):
    running = make_slice(2)
    running.start_engines()
    request = running.send(
        f"import os, time\nif 'TPU_SLICE_WORKER' in os.environ:\n  print('begun', flush=True)\n  {flood}\n"
        "while True: time.sleep(0.01)"
    )
    queued = running.send("print('never')")
    running.wait_for_output(request, "worker 1: still running")
    running.interrupt()
    assert running.result(request).error == "KeyboardInterrupt: "
    assert running.result(queued).reply["status"] == "aborted"
    assert running.run("1").others == "worker 1: same output"


@pytest.mark.nightly
def test_what_a_worker_prints_between_cells_takes_no_memory_of_worker_0(make_slice):
    running = make_slice(2)
    running.start_engines()
    done = running.folder / "done"
    running.run(
        "import os, pathlib, threading\ndef flood():\n  for _ in range(5_000): print('x' * 10_000)\n"
        f"  pathlib.Path({str(done)!r}).touch()\n"
        "thread = threading.Thread(target=flood)"
    )
    before = running.kernel.memory_info().rss
    running.run("if 'TPU_SLICE_WORKER' in os.environ: threading.Timer(0.5, thread.start).start()")
    while not done.exists():
        time.sleep(0.1)  # nothing announces a file
    assert "output since the last cell" in running.run("1").others
    assert running.kernel.memory_info().rss - before < 25_000_000
