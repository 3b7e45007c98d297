"""The command `cp`: copy files between this machine and nodes, over SFTP."""

from __future__ import annotations

import argparse
import asyncio
import os
import posixpath
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_tpu.cli import terminal
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, full_text, note, warn
from jupyter_tpu.errors import BadInput, FileFailed, HostKeyChanged, LoginRefused, Text, WorkerUnreachable, WrongState
from jupyter_tpu.i18n import _
from jupyter_tpu.transfer.copying import Copy, Progress
from jupyter_tpu.transfer.files import Files, Kind, joined, shown_path
from jupyter_tpu.transfer.local_files import LocalFiles
from jupyter_tpu.transfer.problems import file_failed

if TYPE_CHECKING:
    from jupyter_tpu.cloud.api import CloudApi
    from jupyter_tpu.kernels.connections.worker import Worker
    from jupyter_tpu.models import Node
    from jupyter_tpu.ssh import SshConnection

# Delays before each attempt to reconnect, which add up to ten minutes: a laptop that changes its network needs seconds.
_RECONNECT_DELAYS_S = (0.5, 1, 2, 4, 8, *(15,) * 39)


@dataclass(frozen=True, slots=True)
class Place:
    """A path on a node, or on this machine if `node` is empty."""

    node: str
    path: bytes

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parse ``NODE:PATH`` or a local path. As for scp, a colon after a slash is a part of a local path.

        Raises:
            BadInput: the path is in a bucket.
        """
        if text.startswith("gs://"):
            raise BadInput(
                Text("{path} is in a bucket, which `cp` can't copy.", path=text),
                hint="Run `gcloud storage cp` on the node.",
            )
        head, colon, path = text.partition(":")
        is_drive = os.name == "nt" and len(head) == 1
        if not colon or not head or "/" in head or is_drive:
            return cls("", os.fsencode(text))
        return cls(head, os.fsencode(path.removeprefix("~/") if path != "~" else ""))

    def __str__(self) -> str:
        return f"{self.node}:{shown_path(self.path)}" if self.node else shown_path(self.path)


class LocalSide:
    """This machine; see `copying.Side`."""

    def __init__(self) -> None:
        self.files: Files = LocalFiles()

    async def recover(self, error: WorkerUnreachable) -> None:
        """Do nothing: this machine has no connection that can be lost."""

    async def close(self) -> None:
        """Do nothing."""


class NodeSide:
    """A worker of a node; see `copying.Side`. A lost connection is opened again, once for all files."""

    files: Files

    def __init__(self, name: str, worker: Worker) -> None:
        self.name = name
        self._worker = worker
        self._connection: SshConnection | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Connect.

        Raises:
            TpuError: see `Worker.connect`.
        """
        self._connection = await self._worker.connect()
        self.files = await self._connection.open_files(self.name)

    async def recover(self, error: WorkerUnreachable) -> None:
        """See `Side.recover`."""
        async with self._lock:
            if self._connection and not self._connection.is_closed:
                return  # another file has reconnected, or only the other node was lost
            note(_("The connection to {node} was lost. Reconnecting.", node=self.name))
            for delay_s in _RECONNECT_DELAYS_S:
                await asyncio.sleep(delay_s)
                await self.close()
                try:
                    await self.open()
                    return
                except (HostKeyChanged, LoginRefused):
                    raise
                except WorkerUnreachable as latest:
                    error = latest
            raise error

    async def close(self) -> None:
        """Disconnect."""
        connection, self._connection = self._connection, None
        if connection:
            await connection.close()


AnySide = LocalSide | NodeSide


def run_cp(options: argparse.Namespace) -> int:
    """Copy files."""
    *sources, target = map(Place.parse, [*options.paths, *options.passed_on])
    if not sources:
        raise BadInput("No target was given.", hint="Example: `jupyter tpu cp train.py my-node:project/`")
    if not any(place.node for place in (*sources, target)):
        raise BadInput("No path is on a node.", hint="Write a path on a node as NODE:PATH, for example `my-node:data`.")
    progress = asyncio.run(_copy_all(options, sources, target))
    if options.json:
        echo_json(
            {
                "files": progress.files,
                "unchanged": progress.unchanged,
                "bytes": progress.byte_count,
                "skipped": [shown_path(path) for path in progress.skipped],
                "errors": [file_failed(error).to_json() for error in progress.failures],
                "emulated": cloud_settings(options).is_emulated,
            }
        )
    else:
        _show(progress)
    return 1 if progress.failures else 0


def _show(progress: Progress) -> None:
    for path in progress.skipped:
        warn(_("{file} is neither a file nor a folder, and was skipped.", file=shown_path(path)))
    for error in progress.failures:
        warn(full_text(file_failed(error)))
    copied, size = progress.files - progress.unchanged, size_text(progress.byte_count)
    if progress.unchanged:
        echo(_("Files copied: {count}; already there: {unchanged}", count=copied, unchanged=progress.unchanged))
    else:
        echo(_("Files copied: {count} ({size})", count=copied, size=size))


async def _copy_all(options: argparse.Namespace, sources: Sequence[Place], target: Place) -> Progress:
    async with _open_sides(options, (*sources, target)) as sides:
        shown = terminal.Progress()
        progress = Progress()
        if not options.json and sys.stderr.isatty():  # elsewhere, each step would be a new line
            progress.on_change = lambda: shown.show(_step(progress))
        try:
            await _copy_each(sources, target, sides, recursive=options.recursive, progress=progress)
        except OSError as error:
            raise file_failed(error) from error
        finally:
            shown.end()
        return progress


async def _copy_each(
    sources: Sequence[Place], target: Place, sides: Mapping[str, AnySide], *, recursive: bool, progress: Progress
) -> None:
    to = sides[target.node].files
    there = await to.info(target.path)
    is_folder = there is not None and there.kind == "folder"
    if not is_folder and (len(sources) > 1 or (target.path.endswith(b"/") and not recursive)):
        raise FileFailed(
            Text("{file} is not a folder.", file=target),
            exists="Nothing was copied.",
            hint="Create the folder first, or choose another target.",
        )
    for source in sources:
        copy = Copy(source=sides[source.node], target=sides[target.node], progress=progress)
        kind = await _kind_of(source, sides[source.node].files, recursive=recursive)
        path = target.path.rstrip(b"/") or target.path[:1]
        if is_folder:
            path = joined(path, await _name_of(source, sides[source.node].files))
        if kind == "file":
            await copy.file(source.path, path)
        else:
            if source.node == target.node:
                await _refuse_inside_itself(source, path, to)
            await copy.folder(source.path.rstrip(b"/") or source.path[:1] or b".", path)


async def _kind_of(source: Place, files: Files, *, recursive: bool) -> Kind:
    found = await files.info(source.path)
    if found is None:
        raise FileFailed(Text("{file} does not exist.", file=source), hint="Check the path.")
    if found.kind == "folder" and not recursive:
        raise FileFailed(Text("{file} is a folder.", file=source), hint="To copy a folder, add `-r`.")
    if found.kind == "other":
        raise FileFailed(Text("{file} is neither a file nor a folder.", file=source))
    return found.kind


async def _name_of(source: Place, files: Files) -> bytes:
    name = posixpath.basename(source.path.rstrip(b"/"))
    if name in (b"", b".", b".."):
        name = posixpath.basename(await files.real_path(source.path))
    return name


async def _refuse_inside_itself(source: Place, path: bytes, files: Files) -> None:
    whole = (await files.real_path(source.path)).rstrip(b"/") + b"/"
    parent = await files.real_path(posixpath.dirname(path))
    if (parent.rstrip(b"/") + b"/").startswith(whole):
        raise FileFailed(Text("{file} can't be copied into itself.", file=source), hint="Choose another target.")


@asynccontextmanager
async def _open_sides(options: argparse.Namespace, places: Sequence[Place]) -> AsyncIterator[Mapping[str, AnySide]]:
    """Connect to all nodes that are named; yield the sides by the nodes' names, this machine under the empty name."""
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.kernels.agents.agent_calls import workers_of
    from jupyter_tpu.kernels.connections.worker import Worker
    from jupyter_tpu.ssh import import_ahead

    async with open_cloud(cloud_settings(options)) as cloud:
        import_ahead()  # imports asyncssh in a thread during the request to the cloud
        nodes = {name: await ready_node(cloud, name, options.zone) for name in {each.node for each in places} - {""}}
        endpoint = cloud.settings.endpoint
    sides: dict[str, AnySide] = {"": LocalSide()}
    try:
        for name, node in nodes.items():
            key = replace(workers_of(node, endpoint)[0], worker_id=options.worker)
            sides[name] = opened = NodeSide(node.name.node_id, Worker(key, lambda _progress: None))
            await opened.open()
        yield sides
    finally:
        for side in sides.values():
            await side.close()


async def ready_node(cloud: CloudApi, name: str, zone: str) -> Node:
    """Return a node; raise `WrongState` unless it is READY."""
    from jupyter_tpu.cli.nodes.find import find_node

    node = await find_node(cloud, name, zone)
    if node.state != "READY":
        raise WrongState(
            Text("The node {node} is {state}, not READY.", node=node.name.node_id, state=node.state),
            exists="Nothing was copied.",
            hint="Start the node or wait until it is READY, then try again.",
        )
    return node


def _step(progress: Progress) -> str:
    return _("Files copied: {count} ({size})", count=progress.files, size=size_text(progress.byte_count))


def size_text(count: int) -> str:
    """Return a number of bytes with a unit."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
