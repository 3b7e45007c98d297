"""The command `sync`: make a folder on this machine and a folder on a node equal."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.on_node.copy import ready_node, size_text
from jupyter_tpu.cli.options import cloud_settings
from jupyter_tpu.cli.terminal import echo, echo_json, is_confirmed, note, plain, warn
from jupyter_tpu.errors import BadInput, FileFailed, Text, TpuError, WorkerUnreachable
from jupyter_tpu.i18n import _
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.journal.sync_state import SyncState
from jupyter_tpu.sync.actions import Action, Delete, Move, Put
from jupyter_tpu.sync.ignore_rules import ignore_rules
from jupyter_tpu.sync.limits import Question
from jupyter_tpu.sync.replica_client import LocalReplica, ReplicaClient, ReplicaFailed
from jupyter_tpu.sync.session import Direction, SyncResult, SyncSession

if TYPE_CHECKING:
    from jupyter_tpu.link import Link

_ATTEMPTS = 5  # after a lost connection, each continues where the last one stopped
_MOST_NAMED = 10  # files, in a list of what is not synced
_DIRECTIONS: Mapping[str, Direction] = {"both": "both", "push": "push", "pull": "pull", "status": "both"}
_REASONS = {
    "large": Text("larger than 50 MB"),
    "link_out": Text("a link to a path outside of the folder"),
    "special": Text("neither a file nor a folder"),
    "mount": Text("another file system is mounted there"),
    "unreadable": Text("it can't be read"),
    "changing": Text("it is being written"),
    "changed": Text("it was changed during the sync"),
    "same_name": Text("one side can't distinguish its name from another one"),
    "disk_full": Text("the disk is full"),
}


def run_sync(options: argparse.Namespace) -> int:
    """Sync a folder."""
    folder = _checked_folder(options.folder)
    on_node = (options.on_node or folder.name).removeprefix("~/")
    node, result = asyncio.run(_sync(options, folder, on_node))
    if options.json:
        echo_json({**_to_json(result), "emulated": cloud_settings(options).is_emulated})
    else:
        _show(result, node, is_planned=_is_planned(options))
    if result.full:
        raise FileFailed(
            Text("The disk of {node} is full.", node=node) if result.full == "remote" else "The disk here is full.",
            exists="What was not synced is unchanged on both sides.",
            hint="Free space there, and run the command again.",
        )
    return 0


def _is_planned(options: argparse.Namespace) -> bool:
    return bool(options.dry_run) or options.action == "status"


def _checked_folder(folder: Path) -> Path:
    try:
        path = folder.expanduser().resolve(strict=True)
    except OSError as error:
        raise BadInput(Text("{folder} does not exist.", folder=folder), hint="Check the path.") from error
    if not path.is_dir():
        raise BadInput(Text("{file} is not a folder.", file=folder), hint="Name the folder to sync with --folder.")
    if path in (Path.home().resolve(), Path(path.anchor)):
        raise BadInput(
            Text("{folder} is too much to sync.", folder=path),
            hint="Sync the folder of your project: change to it, or name it with --folder.",
        )
    return path


async def _sync(options: argparse.Namespace, folder: Path, on_node: str) -> tuple[str, SyncResult]:
    async with _open_link(options) as (name, endpoint, link):
        state = _state(folder, name, endpoint, on_node)
        local = await LocalReplica.start(folder)
        try:
            for _attempt in range(_ATTEMPTS):
                try:
                    return name, await _sync_once(options, folder, on_node, name, local, link, state)
                except ReplicaFailed as error:
                    if error.code != "lost" or error.replica != "remote":
                        raise
                    note(_("The connection to {node} was lost. Reconnecting.", node=name))
                    await link.wait_up()
            raise WorkerUnreachable(
                Text("The connection to {node} was lost {count} times.", node=name, count=_ATTEMPTS),
                exists="What was synced is the same on both sides.",
                hint="Run the command again: it continues where it stopped.",
            )
        except ReplicaFailed as error:
            raise _problem(error, folder, name, on_node) from error
        finally:
            await local.close()


async def _sync_once(
    options: argparse.Namespace,
    folder: Path,
    on_node: str,
    node: str,
    local: LocalReplica,
    link: Link,
    state: SyncState,
) -> SyncResult:
    try:
        remote = ReplicaClient(await link.open_stream({"files": on_node}), "remote")
    except WorkerUnreachable as error:
        raise ReplicaFailed("lost", str(error), "remote") from error
    try:
        session = SyncSession(local, remote, state, node=node)
        rules = await asyncio.to_thread(ignore_rules, folder)
        chosen: dict[str, Any] = {"direction": _DIRECTIONS[options.action], "is_planned": _is_planned(options)}
        result = await session.run_once(rules, is_confirmed=options.yes, **chosen)
        if result.question is not None and not _is_planned(options) and not options.yes:
            _require_consent(result.question, node)
            result = await session.run_once(rules, is_confirmed=True, **chosen)
        return result
    finally:
        await remote.close()


@asynccontextmanager
async def _open_link(options: argparse.Namespace) -> AsyncIterator[tuple[str, str, Link]]:
    from jupyter_tpu.fleet.assembly import open_cloud
    from jupyter_tpu.kernels.agents.agent_calls import open_agent_link, workers_of
    from jupyter_tpu.ssh import import_ahead

    async with open_cloud(cloud_settings(options)) as cloud:
        import_ahead()  # imports asyncssh in a thread during the request to the cloud
        node = await ready_node(cloud, options.node, options.zone)
        endpoint = cloud.settings.endpoint
    async with open_agent_link(workers_of(node, endpoint)[0]) as link:
        yield node.name.node_id, f"{endpoint} {node.name}", link


def _state(folder: Path, name: str, place: str, on_node: str) -> SyncState:
    key = hashlib.sha256("\0".join((str(folder), place, on_node)).encode("utf-8", "surrogateescape")).hexdigest()
    return SyncState(data_dir() / "sync" / f"{name}-{key[:16]}.sqlite")


def _require_consent(question: Question, node: str) -> None:
    count, size = question.files, size_text(question.total_bytes)
    if question.about == "deletions":
        asked = _("Delete {count} files, most of the folder?", count=count)
    else:
        asked = _("Sync {count} files ({size})?", count=count, size=size)
    for folder, total in list(question.by_folder.items())[:_MOST_NAMED]:
        note(f"{plain(folder) or '.'}: {size_text(total)}")
    if not is_confirmed(asked):
        raise BadInput(
            Text("The sync with {node} was not confirmed.", node=node),
            exists=Text("{count} files ({size}) are waiting. Nothing was changed.", count=count, size=size),
            hint="Answer y, add --yes, or list folders that are not to be synced in a file named .tpuignore.",
        )


def _problem(error: ReplicaFailed, folder: Path, node: str, on_node: str) -> TpuError:
    where = f"{node}:{on_node}" if error.replica == "remote" else str(folder)
    if error.code == "root_gone":
        return FileFailed(
            Text("The folder {folder} is gone.", folder=where),
            exists="The sync was stopped, and nothing was deleted on the other side.",
            hint="Put the folder back, and run the command again.",
            raw=str(error),
        )
    if error.code == "busy":
        return FileFailed(
            Text("Another program is syncing {folder}.", folder=where),
            hint="Wait until it has finished, and run the command again.",
        )
    return FileFailed(
        Text("{folder} can't be synced: {reason}", folder=where, reason=str(error)),
        exists="What was synced is the same on both sides.",
        hint="Run the command again.",
        raw=str(error),
    )


def _show(result: SyncResult, node: str, *, is_planned: bool) -> None:
    if not result.local and not result.remote:
        echo(_("Both folders are equal."))
    else:
        remote, local = _counts(result.remote), _counts(result.local)
        if is_planned:
            echo(_("On {node}: {written} to write, {moved} to rename, {deleted} to delete", node=node, **remote))
            echo(_("Here: {written} to write, {moved} to rename, {deleted} to delete", **local))
        else:
            echo(_("On {node}: {written} written, {moved} renamed, {deleted} deleted", node=node, **remote))
            echo(_("Here: {written} written, {moved} renamed, {deleted} deleted", **local))
    for each in result.conflicts:
        warn(
            _(
                "{file} was changed here and on {node}. Yours keeps the name; the node's is “{copy}”.",
                file=plain(each.path),
                node=node,
                copy=plain(each.copy),
            )
        )
    reasons = Counter(result.not_synced.values())
    for reason, count in reasons.most_common():
        files = [path for path, why in sorted(result.not_synced.items()) if why == reason][:_MOST_NAMED]
        named = ", ".join(map(plain, files)) + (", …" if count > len(files) else "")
        text = str(_REASONS.get(reason, plain(reason)))
        warn(_("Not synced ({reason}): {files}", reason=text, files=named))


def _counts(actions: Sequence[Action]) -> dict[str, int]:
    return {
        "written": sum(isinstance(each, Put) for each in actions),
        "moved": sum(isinstance(each, Move) for each in actions),
        "deleted": sum(isinstance(each, Delete) for each in actions),
    }


def _to_json(result: SyncResult) -> dict[str, Any]:
    asked = result.question
    return {
        "local": _counts(result.local),
        "remote": _counts(result.remote),
        "conflicts": [{"path": each.path, "copy": each.copy} for each in result.conflicts],
        "not_synced": dict(result.not_synced),
        "question": None
        if asked is None
        else {
            "about": asked.about,
            "files": asked.files,
            "bytes": asked.total_bytes,
            "by_folder": dict(asked.by_folder),
        },
        "is_complete": result.is_complete,
        "bytes_received": dict(result.bytes_received),
    }
