"""The emulated cloud for a trial, next to the user's own cloud. One Jupyter server starts, uses and stops it.

Its nodes and its separate journal are in a subfolder of jupyter_tpu's data folder; nothing in the user's cloud is read
or changed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE, TOKEN_FILE_VARIABLE
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.error_actions import copy_command
from jupyter_tpu.errors import BadInput, JournalUnwritable, Text
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.owner import is_gone, new_owner
from jupyter_tpu.journal.paths import trial_dir, trial_file
from jupyter_tpu.kernels.kernelspecs import remove_kernelspecs_of
from jupyter_tpu.kernels.registry.notes import KernelRegistry
from jupyter_tpu.setup.child_process import Child, running

# time limit of the start, long enough for a slow machine; the start normally takes seconds
READY_WITHIN_S = 120.0
# free disk space that is required: the size of the emulator's database and of the start of its log
_FIRST_FILES_BYTES = 1024 * 1024
_NEEDED = ("aiohttp", "grpc_status")
_INSTALL = "pip install 'jupyter-tpu[demo]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedCloud:
    """A running emulated cloud with the addresses that it announced; `token_file` is empty if no token is needed."""

    endpoint: str
    address: str
    project: str
    token_file: str = ""

    @property
    def settings(self) -> CloudSettings:
        """The settings with which a client connects to the emulated cloud."""
        return CloudSettings(project=self.project, endpoint=self.endpoint)

    def variables(self) -> dict[str, str]:
        """Return the environment variables for the emulated cloud's REST services; they don't affect other clouds."""
        token = {TOKEN_FILE_VARIABLE: self.token_file} if self.token_file else {}
        return {ADDRESS_VARIABLE: self.address, **token}


def emulator_argv(state_dir: Path) -> list[str]:
    """Return the command for an emulated cloud with its state in this folder."""
    options = ["--json", "--link-faults", "--show-time", "--state-dir", str(state_dir)]
    # -P: the server runs in the user's folder, and a file random.py there must not replace Python's module
    return [sys.executable, "-P", "-m", "jupyter_tpu.emulator", *options]


async def announced(emulator: Child) -> EmulatedCloud:
    """Wait until the emulated cloud is running.

    Raises:
        TpuError: the emulated cloud did not start.
    """
    line = b""
    with suppress(TimeoutError):
        line = await asyncio.wait_for(emulator.first_line(), READY_WITHIN_S)
    if not line:
        raise emulator.failure()
    ready: dict[str, Any] = json.loads(line)
    return EmulatedCloud(
        endpoint=ready["grpc"],
        address=ready["rest"],
        project=ready["project"],
        token_file=ready.get("token_file", ""),
    )


@asynccontextmanager
async def trial_cloud(environment: MutableMapping[str, str]) -> AsyncIterator[EmulatedCloud]:
    """Run the emulated cloud for a trial. When it has stopped, only its folder is left.

    Args:
        environment: the environment variables, to which those for the emulated cloud's REST services are added while it
            runs.

    Raises:
        BadInput: packages are missing, or another Jupyter server is using the emulated cloud.
        JournalUnwritable: the disk is full, or the emulated cloud's folder is not writable.
        TpuError: the emulated cloud did not start.
    """
    _require_packages()
    _refuse_second()
    await asyncio.to_thread(clean_up_trial)  # clean up before the endpoint of the old trial is replaced
    folder = await asyncio.to_thread(trial_dir)
    state_dir = folder / "cloud"
    await asyncio.to_thread(_make_state_dir, state_dir)
    argv, log = emulator_argv(state_dir), folder / "emulator.log"
    async with running("The emulated cloud", argv, log=log, env=os.environ, answers=True) as emulator:
        cloud = await announced(emulator)
        about = {"endpoint": cloud.endpoint, "owner": new_owner()}
        await asyncio.to_thread(write_whole, trial_file(), json.dumps(about).encode())
        before = {name: environment.get(name) for name in cloud.variables()}
        environment.update(cloud.variables())
        try:
            yield cloud
        finally:
            _restore(environment, before)
            await asyncio.to_thread(_forget)


def _make_state_dir(path: Path) -> None:
    """Create the folder of the emulated cloud and check that there is room for its first files.

    On a full disk, the emulated cloud could not even log why it does not start.

    Raises:
        JournalUnwritable: there is not enough room.
    """
    probe = path / "room"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        write_whole(probe, bytes(_FIRST_FILES_BYTES))
    except OSError as error:
        raise JournalUnwritable(
            Text(
                "The emulated cloud was not started: {path} cannot be written ({error}).",
                path=path,
                error=error.strerror,
            ),
            hint="Free disk space or fix the permissions of this path, then try again.",
            raw=str(error),
        ) from error
    probe.unlink()


def clean_up_trial() -> bool:
    """Remove the kernelspecs and registry entries that a killed server left for kernels on its emulated cloud.

    Returns:
        Whether this server must restart the emulated cloud, because the server that last used it was killed.
    """
    is_left = trial_file().exists() and is_gone(_owner())
    if is_left:
        _forget()
        remember_trial()
    return is_left


def remember_trial() -> None:
    """Record that the user is still using the emulated cloud, so that the next Jupyter server restarts it."""
    with suppress(OSError):  # on a full disk, the user has to start the trial again
        write_whole(trial_file(), b"{}")


def forget_trial() -> None:
    """Prevent the next server from restarting the emulated cloud, because the user has switched back."""
    trial_file().unlink(missing_ok=True)


def _restore(environment: MutableMapping[str, str], before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value


def _require_packages() -> None:
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        raise BadInput(
            "The emulated cloud needs packages that are not installed.",
            hint=Text("Install them into Jupyter's environment: {command}", command=_INSTALL),
            actions=(copy_command(_INSTALL),),
        )


def _refuse_second() -> None:
    if trial_file().exists() and not is_gone(_owner()):
        raise BadInput(
            "Another of your Jupyter servers is using the emulated cloud.",
            hint="Use the emulated cloud there, or switch that server back to Google Cloud.",
        )


def _owner() -> str:
    return str(_about().get("owner", ""))


def _about() -> dict[str, Any]:
    try:
        found = json.loads(trial_file().read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _forget() -> None:
    """Remove all kernelspecs and notes with the cloud's last endpoint, because another program may get that port."""
    endpoint = str(_about().get("endpoint", ""))
    if endpoint:
        remove_kernelspecs_of(endpoint)
        registry = KernelRegistry()
        for note in registry.list():
            if note.endpoint == endpoint:
                registry.remove(note.kernel_id)
    trial_file().unlink(missing_ok=True)
