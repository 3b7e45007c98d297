"""Send wheels and a Python interpreter to a worker over SSH, for nodes that cannot reach a package index."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_tpu.agent.archive import wheels_source
from jupyter_tpu.agent.recording.jupyter_messages import json_object
from jupyter_tpu.errors import EnvironmentFailed, Text, WorkerUnreachable
from jupyter_tpu.frameworks import newest, release_of
from jupyter_tpu.kernels.connections.worker import Worker
from jupyter_tpu.kernels.environments.all_workers import all_of, naming_worker, slowest_of
from jupyter_tpu.kernels.environments.download import (
    WorkerPlatform,
    download_wheels,
    wanted_by_agent,
    wanted_by_environment,
)
from jupyter_tpu.kernels.environments.python_download import fetch_python
from jupyter_tpu.link import RUN_PROGRAM

if TYPE_CHECKING:
    from jupyter_tpu.frameworks import Release
    from jupyter_tpu.kernels.connections.worker import OnProgress, WorkerKey
    from jupyter_tpu.kernels.environments.python_download import FetchedPython
    from jupyter_tpu.link import ByteStream

_PIECE_BYTES = 256 * 1024
# Time limit for a response. Before it responds, the worker may have to hash a wheel of several hundred MB and write it
# to a slow disk.
_ANSWERS_S = 120.0
_LONGEST_LINE = 1024 * 1024  # bounds this computer's memory use, because the worker isn't trusted
# Disk space per byte sent: the wheel, and its unpacked files in uv's cache and in the environment.
_UNPACKED = 4


async def push_wheels(
    keys: Sequence[WorkerKey], framework: str, version: str, requirements: Sequence[str], on_progress: OnProgress
) -> str:
    """Download an environment's wheels and send missing wheels to all workers; return the framework's version.

    If the workers' system Python is not compatible, a compatible Python is sent too. If this machine cannot download a
    compatible Python, the newest framework release for the workers' system Python is used, unless `version` is given.

    Args:
        keys: the node's workers.
        version: the framework's version; empty for the newest compatible version.
        requirements: additional packages.
        is_slice: whether to also send the packages for kernels that run on all workers of a slice.

    Raises:
        TpuError: no version is compatible, or a transfer failed. Transferred data is kept, so the next call resumes
            the transfer.
    """
    wanted = _Files(framework, version, requirements, is_slice=len(keys) > 1)
    progress = slowest_of(len(keys), on_progress)
    pushes = [_push(key, wanted, progress(key.worker_id)) for key in keys]
    if len(keys) > 1:
        pushes = [naming_worker(key.worker_id, key.node.node_id, push) for key, push in zip(keys, pushes, strict=True)]
    return (await all_of(pushes))[0].version


async def _push(key: WorkerKey, wanted: _Files, on_progress: OnProgress) -> Release:
    connection = await Worker(key, on_progress).connect()
    try:
        dialogue = _Dialogue(await connection.execute(RUN_PROGRAM))
        await dialogue.begin()
        # The program's first line describes the worker: its Python, machine, existing files and free disk space.
        hello = await dialogue.read_line()
        platform = WorkerPlatform(python=str(hello["python"]), machine=str(hello["machine"]), has_uv=hello["has_uv"])
        release, files = await wanted.get(platform, on_progress)
        missing = [each for each in files if _is_missing(each, hello)]
        _refuse_too_many(missing, int(hello["free_bytes"]))
        await _send(dialogue, missing, on_progress)
        return release
    finally:
        await connection.close()


class _Files:
    """The files to send, downloaded once for all workers of a platform.

    Args:
        framework, version, requirements: see `push_wheels`.
        is_slice: whether to also send the packages for kernels that run on all workers of a slice.
    """

    def __init__(self, framework: str, version: str, requirements: Sequence[str], *, is_slice: bool) -> None:
        self._framework = framework
        self._version = version
        self._requirements = requirements
        self._is_slice = is_slice
        self._found: dict[WorkerPlatform, tuple[Release, list[Path]]] = {}
        self._downloading = asyncio.Lock()

    async def get(self, platform: WorkerPlatform, on_progress: OnProgress) -> tuple[Release, list[Path]]:
        """Return the release for a platform, and its files, which are downloaded if needed."""
        async with self._downloading:
            if platform not in self._found:
                release, python = await _choose(platform, self._framework, self._version, on_progress)
                minor = python.minor if python else platform.python
                _report(on_progress, f"Downloading {release.title} for Python {minor}", None)
                self._found[platform] = release, await asyncio.to_thread(self._download, platform, python, release)
            return self._found[platform]

    def _download(self, platform: WorkerPlatform, python: FetchedPython | None, release: Release) -> list[Path]:
        agent = wanted_by_agent(platform, is_slice=self._is_slice)
        environment = wanted_by_environment(release, self._requirements)
        of_environment = replace(platform, python=python.minor) if python else platform
        # Resolve separately: the worker installs the agent's wheels by hash, in exactly the versions of the lock.
        wheels = [*download_wheels(platform, agent), *download_wheels(of_environment, environment)]
        return [*([python.archive] if python else []), *{wheel.name: wheel for wheel in wheels}.values()]


async def _choose(
    platform: WorkerPlatform, framework: str, version: str, on_progress: OnProgress
) -> tuple[Release, FetchedPython | None]:
    release = (release_of(framework, version) if version else None) or newest(framework)
    try:
        if not release.fits(platform.python_version):
            _report(on_progress, f"Fetching a Python for {release.title}: the worker has {platform.python}", None)
        return release, await asyncio.to_thread(fetch_python, platform, release)
    except EnvironmentFailed as error:  # uv could not download a Python here
        if version:
            error.hint = Text(
                "{hint} Or omit `--version` to upload a release for the worker's own Python.", hint=error.hint
            )
            raise
        release = newest(framework, platform.python_version)
        _report(on_progress, f"{error.message} Using {release.title}, which works with Python {platform.python}.", None)
        return release, None


def _is_missing(wheel: Path, hello: Mapping[str, Any]) -> bool:
    return bool(hello["has"].get(wheel.name) != wheel.stat().st_size)


def _refuse_too_many(wheels: Sequence[Path], free_bytes: int) -> None:
    needed = _UNPACKED * sum(wheel.stat().st_size for wheel in wheels)
    if needed > free_bytes:
        raise EnvironmentFailed(
            Text(
                "The worker's disk has {free} GB free; the environment needs about {needed} GB.",
                free=f"{free_bytes / 1e9:.1f}",
                needed=f"{needed / 1e9:.1f}",
            ),
            exists="Nothing was sent.",
            hint="Log in with `jupyter tpu ssh` and free disk space on the worker.",
        )


async def _send(dialogue: _Dialogue, wheels: Sequence[Path], on_progress: OnProgress) -> None:
    total = sum(wheel.stat().st_size for wheel in wheels)
    sent = 0
    for wheel in wheels:
        megabytes = wheel.stat().st_size / 1e6
        _report(on_progress, f"Sending {wheel.name} ({megabytes:.1f} MB)", sent / total)
        await dialogue.give(wheel)
        sent += wheel.stat().st_size


def _report(on_progress: OnProgress, message: str, fraction: float | None) -> None:
    on_progress({"phase": "environment", "message": message, "fraction": fraction})


class _Dialogue:
    """The exchange of lines and files with the receiving program on the worker."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._received = b""

    async def begin(self) -> None:
        """Send the receiving program to the worker."""
        source = wheels_source()
        await self._write(b"%d\n%b" % (len(source), source))

    async def give(self, wheel: Path) -> None:
        """Send one wheel. If the worker has already received the beginning of the file, send only the missing bytes."""
        content = await asyncio.to_thread(wheel.read_bytes)
        header = {"name": wheel.name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        await self._write(json.dumps(header).encode() + b"\n")
        offset = (await self.read_line()).get("offset")
        if not isinstance(offset, int) or offset < 0:
            raise _cut()
        for at in range(offset, len(content), _PIECE_BYTES):
            await self._write(content[at : at + _PIECE_BYTES])
        if (await self.read_line()).get("taken") != wheel.name:
            raise EnvironmentFailed(
                Text("{name} was damaged during the transfer to the worker.", name=wheel.name), hint="Try again."
            )

    async def read_line(self) -> dict[str, Any]:
        """Return the next line from the worker as a JSON object."""
        try:
            async with asyncio.timeout(_ANSWERS_S):
                while b"\n" not in self._received:
                    self._received += await self._more()
        except (TimeoutError, OSError) as error:
            raise _cut() from error
        line, _, self._received = self._received.partition(b"\n")
        return json_object(line)

    async def _more(self) -> bytes:
        data = await self._stream.read(_PIECE_BYTES)
        if not data or len(self._received) > _LONGEST_LINE:
            raise _cut()
        return data

    async def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
            await self._stream.drain()
        except OSError as error:
            raise _cut() from error


def _cut() -> WorkerUnreachable:
    return WorkerUnreachable(
        "The transfer of files to the worker was interrupted.",
        exists="Files that have arrived stay on the worker.",
        hint="Try again: the transfer continues where it stopped. If it fails again, check the worker's free "
        "disk space.",
    )
