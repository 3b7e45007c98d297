"""Run a node's startup script on each worker, once per boot."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil

from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.workers.machine import SHELL, Machine
from jupyter_tpu.files import users_umask

LOG = ".startup-script.log"


@documented(
    "startup-script",
    "On every worker, the metadata item startup-script runs once per boot; the node does not wait for it.",
    source="cloud.google.com/compute/docs/instances/startup-scripts/linux; gcloud tpu-vm create --metadata-from-file",
)
@assumed(
    "startup-script-user",
    "The startup script runs as the user who runs the emulator, not as root. Its output is written to "
    "~/.startup-script.log.",
)
async def run_startup_script(machine: Machine, script: str) -> None:
    """Run the script until it exits; cancelling this call does not stop the script."""
    path = machine.folder / "startup-script"
    path.write_text(script, encoding="utf-8")
    # execute the file itself, so that its first line selects the interpreter
    path.chmod(0o700)
    # append, to keep the output of earlier boots
    with (machine.home / LOG).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(SHELL, "-c", str(path)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            env=machine.environment(),
            cwd=machine.home,
            start_new_session=True,
            umask=users_umask(),
        )
    await process.wait()


def is_booting(folder: Path) -> bool:
    """Return whether the machine in this folder was down, and record that it is now up.

    A killed emulator leaves its workers running, and the next emulator takes them over. This does not count as a boot.
    """
    mark = folder / "booted"
    # use this computer's own boot time: after a reboot, no worker process can still be running
    now = str(int(psutil.boot_time()))
    is_up = mark.exists() and mark.read_text(encoding="ascii") == now
    mark.write_text(now, encoding="ascii")
    return not is_up


def record_shutdown(folder: Path) -> None:
    """Record that the machine in this folder is down."""
    (folder / "booted").unlink(missing_ok=True)
