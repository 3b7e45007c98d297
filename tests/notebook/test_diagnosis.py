"""What JAX and libtpu say when they cannot start, and what we make of it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from jupyter_tpu.errors import AcceleratorBusy
from jupyter_tpu.frameworks import newest
from jupyter_tpu.metrics import Holder
from jupyter_tpu.notebook.node.holders import find_holder, who_holds, who_locks
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.diagnosis import diagnose_start, missing, wrong_devices

ON_A_NODE = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8"})
ELSEWHERE = this_worker({})
SUFFIX = " (set JAX_PLATFORMS='' to automatically choose an available backend)"
HELD = (
    "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 3773."
    " Not attempting to load libtpu.so in this process." + SUFFIX
)
LOCKED = (
    "Unable to initialize backend 'tpu': ABORTED: Internal error when accessing libtpu multi-process lockfile."
    ' Run "$ sudo rm /tmp/libtpu_lockfile".' + SUFFIX
)


def test_the_holder_of_the_tpu_is_named_with_its_notebook():
    error = diagnose_start(
        HELD, ON_A_NODE, holder_of=lambda pid: Holder(pid=pid, notebook="/home/me/train.ipynb", is_kernel=True)
    )
    assert isinstance(error, AcceleratorBusy)
    assert error.message == "The TPU is in use by process 3773, the kernel of the notebook /home/me/train.ipynb."
    assert "To end that notebook's kernel, run `%tpu release`" in error.hint


def test_what_a_kernel_has_started_is_not_called_the_kernel():
    child = Holder(pid=3773, command="python train.py", notebook="/home/me/train.ipynb")
    error = diagnose_start(HELD, ON_A_NODE, holder_of=lambda pid: child)
    assert (
        "process 3773 (python train.py), started by the kernel of the notebook /home/me/train.ipynb." in error.message
    )
    assert "To end that process, run `%tpu release`" in error.hint


def test_a_holder_that_is_no_notebook_is_named_with_its_command():
    error = diagnose_start(HELD, ON_A_NODE, holder_of=lambda pid: Holder(pid=pid, command="python train.py"))
    assert "process 3773 (python train.py)" in error.message
    assert "To end that process, run `%tpu release`" in error.hint


@pytest.mark.parametrize("field", ["notebook", "command"])
def test_a_name_that_would_steer_the_terminal_is_told_as_text(field):
    error = diagnose_start(HELD, ON_A_NODE, holder_of=lambda pid: Holder(pid=pid, **{field: "\x1b[31mevil\u202e\n2"}))
    assert "[31mevil 2" in error.message


def test_what_a_framework_said_is_shown_in_its_lines_and_steers_no_terminal():
    error = diagnose_start("first\n\tsecond\x1b[2J\x07\u202e\r third", ON_A_NODE)
    head, *rest = error._render_traceback_()
    assert head.startswith("\x1b[31mAcceleratorFailed\x1b[39m: ")
    assert rest[-1] == "first\n\tsecond[2J third"


def test_the_notebook_of_a_living_process_is_read_from_its_environment():
    environ = {**os.environ, "JPY_SESSION_NAME": "/home/me/näh.ipynb"}
    script = "print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        holder = find_holder(process.pid)
        process.stdin.close()
    assert holder.notebook == "/home/me/näh.ipynb"
    assert not holder.is_kernel
    assert "input()" in holder.command


def test_a_holder_that_is_gone_is_known_by_its_pid_alone(tmp_path):
    assert str(find_holder(3773, proc=tmp_path)) == "process 3773"


def test_outside_a_node_the_hint_is_to_choose_one():
    error = diagnose_start("Failed to open libtpu.so", ELSEWHERE)
    assert "does not run on a TPU node" in error.message


def test_wrong_numbers_of_devices_name_both():
    assert "JAX has 4 devices in this kernel, but a worker of v5litepod-8 has 8." in wrong_devices(4, ON_A_NODE).message


def test_a_real_node_is_told_to_install_jax_with_its_tpu_library():
    assert '"jax[tpu]==' in missing("jax", ON_A_NODE, "").hint


def test_a_python_that_no_version_of_a_framework_supports_is_named_as_the_reason(monkeypatch):
    monkeypatch.setattr(
        "jupyter_tpu.notebook.tpu_init.diagnosis.newest", lambda framework, _: newest(framework, (3, 8))
    )
    why = "No version of JAX supports this Python. JAX 0.10 needs Python 3.11 or newer."
    assert missing("jax", ON_A_NODE, "").hint == why
    assert diagnose_start("jaxlib version 0.4 is newer than", ON_A_NODE).hint == why


@pytest.mark.parametrize("has_device", [True, False])
def test_whoever_holds_the_chips_is_found_by_device_file_or_lock(tmp_path, has_device):
    (tmp_path / "accel0").touch()
    lock = tmp_path / "libtpu_lockfile"
    with holding(lock, tmp_path / "accel0" if has_device else tmp_path / "other") as pid:
        assert who_holds(tmp_path, lock) == [pid]
    assert who_holds(tmp_path, lock) == []


def test_a_lock_file_without_a_holder_is_told_apart_from_one_that_is_held(tmp_path):
    worker = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8", "JUPYTER_TPU_LOCK_FILE": str(tmp_path / "lock")})
    with holding(worker.lock_file, tmp_path / "other") as pid:
        held = diagnose_start(LOCKED, worker)
    left_behind = diagnose_start(LOCKED, worker)
    assert f"in use by process {pid} (" in held.message
    assert "sees no process that holds the file" in left_behind.message
    assert f"sudo rm {worker.lock_file}" in left_behind.hint


def test_other_files_locks_are_nobodys_business(tmp_path):
    (tmp_path / "mine").touch()
    with holding(tmp_path / "theirs", tmp_path / "theirs"):
        assert list(who_locks(tmp_path / "mine")) == []


HOLD = """
import fcntl, sys
lock, device = open(sys.argv[1], "a+"), open(sys.argv[2], "a+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("up", flush=True)
input()
"""


@contextmanager
def holding(lock, device):
    """A process that has a lock and a device file, as libtpu has them."""
    command = [sys.executable, "-c", HOLD, str(lock), str(device)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        yield process.pid
        process.communicate(b"\n")
