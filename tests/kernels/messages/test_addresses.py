"""The folders of kernels' sockets, and what killed processes leave of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_HOLDER = """
import sys, zmq
from jupyter_tpu.kernels.messages.local_ports import CHANNELS, IpcAddresses
addresses, context = IpcAddresses(), zmq.Context()
sockets = {channel: context.socket(zmq.ROUTER) for channel in CHANNELS}
for channel, socket in sockets.items():
    addresses.bind(socket, channel)
addresses.publish()
print("bound", flush=True)
sys.stdin.readline()
addresses.remove()
context.destroy(linger=0)
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Sockets' paths must be short, so not pytest's own."""
    with tempfile.TemporaryDirectory(prefix="jt-") as folder:
        yield Path(folder)


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that has bound the sockets of a kernel."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "bound\n"
    return process


def test_the_folders_of_killed_processes_are_removed_at_the_next_start(short_folder: Path) -> None:
    with holder(short_folder) as killed:
        killed.send_signal(signal.SIGKILL)
    (left,) = short_folder.iterdir()
    with holder(short_folder) as living:
        (own,) = short_folder.iterdir()
        assert own != left
        with holder(short_folder) as another:
            assert own in set(short_folder.iterdir())
            another.communicate("\n", timeout=60)
        living.communicate("\n", timeout=60)
    assert list(short_folder.iterdir()) == []
