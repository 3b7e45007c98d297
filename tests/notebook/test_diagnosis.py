"""What JAX and libtpu say when they cannot start, and what we make of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jupyter_tpu.errors import AcceleratorBusy, AcceleratorFailed
from jupyter_tpu.notebook.diagnosis import diagnose_start, jax_missing, wrong_devices
from jupyter_tpu.notebook.holders import Holder, find_holder
from jupyter_tpu.notebook.worker import this_worker

ON_A_NODE = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8"})
ELSEWHERE = this_worker({})
SUFFIX = " (set JAX_PLATFORMS='' to automatically choose an available backend)"
HELD = (
    "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 3773."
    " Not attempting to load libtpu.so in this process." + SUFFIX
)

CASES = [
    pytest.param(
        "Unable to initialize backend 'tpu': ABORTED: Internal error when accessing libtpu multi-process lockfile."
        ' Run "$ sudo rm /tmp/libtpu_lockfile".',
        AcceleratorBusy,
        "sudo lsof",
        id="lock held by a process that cannot be seen",
    ),
    pytest.param(
        "The TPU is already in use by another process probably owned by another user."
        ' Run "$ sudo lsof -w /dev/accel0" to figure out which process',
        AcceleratorBusy,
        "sudo lsof",
        id="another user's process",
    ),
    pytest.param(
        "Unable to initialize backend 'tpu': NOT_FOUND: TPU initialization failed: No jellyfish device found." + SUFFIX,
        AcceleratorFailed,
        "runtime version",
        id="no chip",
    ),
    pytest.param(
        "Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object"
        " file: No such file or directory" + SUFFIX,
        AcceleratorFailed,
        "jax[tpu]",
        id="no libtpu",
    ),
    pytest.param(
        "Unexpected PJRT_Plugin_Attributes_Args size: expected 32, got 24. The plugin is likely built with a later"
        " version than the framework.",
        AcceleratorFailed,
        "matching set",
        id="libtpu too new",
    ),
    pytest.param(
        "jaxlib version 0.10.2 is newer than and incompatible with jax version 0.9.0. Please update your jax",
        AcceleratorFailed,
        "matching set",
        id="jax and jaxlib differ",
    ),
    pytest.param("a text nobody has seen", AcceleratorFailed, "Restart the kernel", id="unknown"),
]


@pytest.mark.parametrize(("raw", "kind", "hint"), CASES)
def test_each_refusal_becomes_an_error_that_says_what_to_do(raw, kind, hint):
    error = diagnose_start(raw, ON_A_NODE)
    assert type(error) is kind
    assert hint in error.hint
    assert error.raw == raw


def test_the_holder_of_the_tpu_is_named_with_its_notebook():
    error = diagnose_start(HELD, ON_A_NODE, lambda pid: Holder(pid=pid, notebook="/home/me/train.ipynb"))
    assert isinstance(error, AcceleratorBusy)
    assert error.message == "The TPU is in use by process 3773, the kernel of the notebook /home/me/train.ipynb."
    assert "Shut down that notebook" in error.hint


def test_a_holder_that_is_no_notebook_is_named_with_its_command():
    error = diagnose_start(HELD, ON_A_NODE, lambda pid: Holder(pid=pid, command="python train.py"))
    assert "process 3773 (python train.py)" in error.message
    assert "Shut down that process" in error.hint


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
    assert "input()" in holder.command


def test_a_holder_that_is_gone_is_known_by_its_pid_alone(tmp_path):
    assert str(find_holder(3773, proc=tmp_path)) == "process 3773"


def test_outside_a_node_the_hint_is_to_choose_one():
    error = diagnose_start("Failed to open libtpu.so", ELSEWHERE)
    assert "does not run on a TPU node" in error.message


def test_wrong_numbers_of_devices_name_both():
    assert "JAX has 4 devices in this kernel, but a worker of v5litepod-8 has 8." in wrong_devices(4, ON_A_NODE).message


def test_a_real_node_is_told_to_install_jax_with_its_tpu_library():
    assert '"jax[tpu]"' in jax_missing(ON_A_NODE).hint
