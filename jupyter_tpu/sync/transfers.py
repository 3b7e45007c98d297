"""Perform the actions of one side: get the contents from the other side, then rename them to their places.

Small files travel in packs, large ones in pieces that are resumed after a disconnect. Of a changed large file only the
changes are sent, and what the side already has is copied there. A new folder is built beside its place and appears as a
whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.sync import trees
from jupyter_tpu.sync.actions import Action, Delete, DeleteFolder, MakeFolder, Move, Put
from jupyter_tpu.sync.deltas import Blocks, Piece, pieces
from jupyter_tpu.sync.entries import Entry, File, Folder, Link
from jupyter_tpu.sync.replica_client import ReplicaClient, ReplicaFailed
from jupyter_tpu.wire.file_messages import DATA_BYTES

SMALL_BYTES = 64 * 1024
_PACK_BYTES = DATA_BYTES - SMALL_BYTES
_PACK_FILES = 500
# A disconnect loses at most one of these folders, and a file is visible as soon as its folder is complete.
_UNIT_BYTES = 8 * 1024 * 1024
_UNIT_FILES = 2_000
_DELTA_BYTES = 1024 * 1024  # smaller files are sent as a whole
_MOST_PENDING = 8  # pieces under way


@dataclass(slots=True)
class Side:
    """One copy of the folder.

    Attributes:
        tree: what it contains, as far as known; kept up to date while actions are performed.
        scanned, revision: of its index after the scan, and after the last action.
        not_done: why an action was not done, by path.
        bytes_received: of contents.
        is_full: whether its disk is full.
    """

    client: ReplicaClient
    tree: Folder
    scanned: int = 0
    revision: int = 0
    not_done: dict[str, str] = field(default_factory=dict)
    bytes_received: int = 0
    is_full: bool = False


@dataclass(slots=True)
class _Unit:
    """A new folder with files that appear together with it."""

    path: str
    members: list[MakeFolder | Put]


_Step = Action | _Unit


class Transfer:
    """Performs the actions of one side.

    Args:
        after_batch: called after each batch of actions.
        batch: most actions between two such calls.
    """

    def __init__(
        self, target: Side, source: Side, after_batch: Callable[[], Awaitable[None]], batch: int = _PACK_FILES
    ) -> None:
        self._target = target
        self._source = source
        self._after_batch = after_batch
        self._batch = batch
        self._held = dict(trees.holders(target.tree))
        self._offered = trees.holders(source.tree)
        # contents that were not created here although planned: their other copies must stay
        self._missing: set[str] = set()

    async def run(self, actions: Sequence[Action]) -> None:
        """Perform actions in order. What can't be done is left out, and what would then lose a version is too.

        Raises:
            ReplicaFailed: a replica can't go on.
        """
        for batch in self._batches(_units(list(actions))):
            await self._perform(batch)
            await self._after_batch()
            if self._target.is_full:
                return

    def _batches(self, steps: list[_Step]) -> Iterator[list[_Step]]:
        batch: list[_Step] = []
        total = 0
        for step in steps:
            size = step.entry.size if isinstance(step, Put) and isinstance(step.entry, File) else 0
            is_alone = isinstance(step, _Unit | Move) or size > SMALL_BYTES
            if batch and (is_alone or total + size > _PACK_BYTES or len(batch) >= self._batch):
                yield batch
                batch, total = [], 0
            batch.append(step)
            total += size
            if is_alone:
                yield batch
                batch, total = [], 0
        if batch:
            yield batch

    async def _perform(self, batch: list[_Step]) -> None:
        steps = [step for step in batch if self._is_safe(step)]
        requests = await self._prepare(steps)
        planned = [(step, request) for step, request in zip(steps, requests, strict=True) if request is not None]
        for step, request in zip(steps, requests, strict=True):
            if request is None:
                self._failed(step, "changed")
        if not planned:
            return
        reply, _ = await self._target.client.ask("apply", actions=[request for _, request in planned])
        reasons = reply.get("reasons")
        if not isinstance(reasons, list) or len(reasons) > len(planned):
            raise ReplicaFailed("broken", "other results than actions")
        self._target.revision = int(reply.get("revision") or 0)
        for (step, _), reason in zip(planned, reasons, strict=False):
            if reason:
                self._failed(step, str(reason)[:200])
            else:
                self._done(step)
        for step, _ in planned[len(reasons) :]:
            self._failed(step, "disk_full")

    def _is_safe(self, step: _Step) -> bool:
        """Whether no version is lost by a step, after what was not done before it."""
        old = step.replaces if isinstance(step, Put) else step.entry if isinstance(step, Delete) else None
        if old is None or _key(old) not in self._missing:
            return True
        self._failed(step, "changed")
        return False

    def _failed(self, step: _Step, reason: str) -> None:
        self._target.is_full = self._target.is_full or reason == "disk_full"
        members = step.members if isinstance(step, _Unit) else [step]
        for each in members:
            self._target.not_done[each.path] = reason
            if isinstance(each, Put):
                self._missing.add(_key(each.entry))

    def _done(self, step: _Step) -> None:
        tree = self._target.tree
        if isinstance(step, _Unit):
            trees.put(tree, step.path, {})
            for each in step.members:
                self._done(each)
        elif isinstance(step, MakeFolder):
            if not isinstance(trees.get(tree, step.path), dict):
                trees.put(tree, step.path, {})
        elif isinstance(step, Put):
            trees.put(tree, step.path, step.entry)
            if isinstance(step.entry, File):
                self._held[step.entry.digest] = step.path
        elif isinstance(step, Move):
            entry = trees.get(tree, step.path)
            trees.put(tree, step.path, None)
            trees.put(tree, step.new_path, entry)
        else:
            trees.put(tree, step.path, None)

    # --- contents

    async def _prepare(self, steps: list[_Step]) -> list[list[Any] | None]:
        """Bring the contents to the side, and return the request for each step; None if its content is gone."""
        small: dict[str, int] = {}
        requests: list[list[Any] | None] = []
        for step in steps:
            request = await self._prepare_step(step, small)
            requests.append(request)
        missing = await self._send_small(list(small.items()))
        return [None if request and _needs(request) in missing else request for request in requests]

    async def _prepare_step(self, step: _Step, small: dict[str, int]) -> list[Any] | None:
        match step:
            case _Unit():
                return await self._build(step)
            case MakeFolder():
                return ["folder", step.path]
            case Move():
                return ["move", step.path, step.new_path]
            case Delete():
                return ["delete", step.path, trees.to_json(step.entry)]
            case DeleteFolder():
                return ["delete_folder", step.path]
        request = ["put", step.path, trees.to_json(step.entry), trees.to_json(step.replaces), None]
        if isinstance(step.entry, Link) or _is_same_content(step):
            return request
        held = self._holder(step.entry.digest)
        if held is not None:
            request[4] = held
        elif step.entry.digest in small:  # the first of equal files in this batch becomes the source of the others
            request[4] = self._held[step.entry.digest]
        elif step.entry.size <= SMALL_BYTES:
            small[step.entry.digest] = step.entry.size
            self._held[step.entry.digest] = step.path
        elif not await self._send_large(step.entry, step):
            return None
        return request

    def _holder(self, digest: str) -> str | None:
        """Return a path of the side with a content."""
        path = self._held.get(digest)
        found = trees.get(self._target.tree, path) if path is not None else None
        return path if isinstance(found, File) and found.digest == digest else None

    async def _send_small(self, contents: list[tuple[str, int]]) -> set[str]:
        """Send small contents; return the digests of those that are gone."""
        missing: set[str] = set()
        while contents:
            files = [[self._offered.get(digest, ""), digest] for digest, _ in contents if digest in self._offered]
            missing.update(digest for digest, _ in contents if digest not in self._offered)
            if not files:
                break
            reply, data = await self._source.client.ask("read_many", files=files)
            sizes = reply.get("sizes")
            if not isinstance(sizes, list) or len(sizes) != len(files):
                raise ReplicaFailed("broken", "other sizes than files")
            found = [[digest, size] for (_, digest), size in zip(files, sizes, strict=True) if size >= 0]
            missing.update(digest for (_, digest), size in zip(files, sizes, strict=True) if size < 0)
            contents = []
            if found:
                try:
                    await self._target.client.ask("write_many", data, files=found)
                    self._target.bytes_received += len(data)
                except ReplicaFailed as error:
                    self._refused(error)
                    missing.update(digest for digest, _ in found)
        return missing

    def _refused(self, error: ReplicaFailed) -> None:
        """Go on without a content that could not be written; raise the error if nothing can go on."""
        if error.code == "disk_full":
            self._target.is_full = True
        elif error.code not in ("changed", "refused", "system"):
            raise error

    async def _send_large(self, entry: File, step: Put | None = None) -> bool:
        """Send a content in pieces, beginning where an earlier transfer stopped; return whether it is complete."""
        path = self._offered.get(entry.digest)
        if path is None:
            return False
        try:
            staged, _ = await self._target.client.ask("staged", digest=entry.digest)
            if staged.get("is_complete"):
                return True
            start = int(staged.get("size") or 0)
            start = start if start <= entry.size else 0
            plan = await self._delta(entry, path, step)
            await self._send_pieces(entry, path, start, plan, step)
        except ReplicaFailed as error:
            self._refused(error)
            return False
        return True

    async def _delta(self, entry: File, path: str, step: Put | None) -> list[Piece]:
        old = step.replaces if step is not None else None
        if step is None or not isinstance(old, File) or min(entry.size, old.size) < _DELTA_BYTES:
            return [Piece(0, entry.size, None)]
        before, after = await asyncio.gather(
            _blocks(self._target.client, step.path, old), _blocks(self._source.client, path, entry)
        )
        return pieces(before, after)

    async def _send_pieces(self, entry: File, path: str, start: int, plan: list[Piece], step: Put | None) -> None:
        content: dict[str, Any] = {"digest": entry.digest, "size": entry.size}
        pending: deque[asyncio.Task[Any]] = deque()
        try:
            if start == entry.size:  # checks the digest of a file that an earlier process completed
                await self._target.client.ask("write", offset=start, **content)
            for piece in plan:
                if piece.start + piece.length <= start:
                    continue
                begin = max(piece.start, start)
                length = piece.start + piece.length - begin
                if piece.old_start is not None and step is not None and isinstance(step.replaces, File):
                    copied: dict[str, Any] = {"path": step.path, "from_digest": step.replaces.digest}
                    copied_from = piece.old_start + begin - piece.start
                    await _settle(pending)
                    await self._target.client.ask(
                        "copy", offset=begin, start=copied_from, length=length, **content, **copied
                    )
                    continue
                async for offset, hole, data in self._read(path, entry, begin, begin + length):
                    if hole:
                        data = b""
                    request = self._target.client.ask("write", data, offset=offset, hole=hole, **content)
                    pending.append(asyncio.create_task(request))
                    self._target.bytes_received += len(data)
                    # sent in this order, because a task starts to run in the order of creation
                    if len(pending) >= _MOST_PENDING:
                        await pending.popleft()
            await _settle(pending)
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _read(self, path: str, entry: File, start: int, end: int) -> Any:
        """Yield ``(offset, length of a hole, data)``, with several requests under way."""
        ask = self._source.client.ask
        pending: deque[tuple[int, asyncio.Task[Any]]] = deque()
        offset = following = start
        try:
            while offset < end:
                while following < end and len(pending) < _MOST_PENDING:
                    request = ask("read", path=path, digest=entry.digest, offset=following)
                    pending.append((following, asyncio.create_task(request)))
                    following += DATA_BYTES
                at, task = pending.popleft()
                reply, data = await task
                hole = min(int(reply.get("hole") or 0), end - offset)
                data = data[: end - offset]
                if not hole and not data:
                    raise ReplicaFailed("broken", "no data")
                yield offset, hole, data
                offset += hole or len(data)
                if offset != at + DATA_BYTES:  # after a hole, what was asked for is of no use
                    await _cancel(pending)
                    following = offset
        finally:
            await _cancel(pending)

    async def _build(self, unit: _Unit) -> list[Any] | None:
        """Build a new folder beside its place."""
        name = hashlib.sha256(unit.path.encode("utf-8", "surrogateescape")).hexdigest()
        try:
            for member in unit.members:
                large = member.entry if isinstance(member, Put) and _is_large(member.entry) else None
                if isinstance(large, File) and not await self._send_large(large):
                    return None
            start = len(unit.path) + 1
            await self._target.client.ask("build", unit=name, entries=[])
            for pack in _packs(unit.members):
                files = [
                    [self._offered.get(each.entry.digest, ""), each.entry.digest]
                    for each in pack
                    if isinstance(each, Put) and isinstance(each.entry, File) and not _is_large(each.entry)
                ]
                if not all(path for path, _ in files):
                    return None
                data = b""
                if files:
                    reply, data = await self._source.client.ask("read_many", files=files)
                    if min(reply.get("sizes") or [-1]) < 0:
                        return None
                entries = [[each.path[start:], *_member(each)] for each in pack]
                await self._target.client.ask("build", data, unit=name, entries=entries)
                self._target.bytes_received += len(data)
        except ReplicaFailed as error:
            self._refused(error)
            return None
        return ["unit", unit.path, name]


def _member(each: MakeFolder | Put) -> tuple[list[Any] | None, bool]:
    if isinstance(each, MakeFolder):
        return ["d"], False
    return trees.to_json(each.entry), isinstance(each.entry, File) and not _is_large(each.entry)


async def _blocks(client: ReplicaClient, path: str, entry: File) -> Blocks:
    reply, _ = await client.ask("blocks", path=path, digest=entry.digest)
    try:
        return Blocks(entry.size, int(reply["block"]), list(reply["head"]), list(reply["tail"]))
    except (LookupError, TypeError, ValueError) as error:
        raise ReplicaFailed("broken", "not the blocks of a file") from error


async def _settle(pending: deque[asyncio.Task[Any]]) -> None:
    while pending:
        await pending.popleft()


async def _cancel(pending: deque[tuple[int, asyncio.Task[Any]]]) -> None:
    tasks = [task for _, task in pending]
    pending.clear()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _units(actions: list[Action]) -> list[_Step]:
    """Join the creation of folders and of what is in them."""
    steps: list[_Step] = []
    position = 0
    while position < len(actions):
        action = actions[position]
        if not isinstance(action, MakeFolder):
            steps.append(action)
            position += 1
            continue
        inside = f"{action.path}/"
        end = position + 1
        while end < len(actions) and _created(actions[end]).startswith(inside):
            end += 1
        steps.extend(_folder_units(action, actions[position + 1 : end]))
        position = end
    return steps


def _folder_units(folder: MakeFolder, inner: list[Action]) -> Iterator[_Step]:
    members = [each for each in inner if isinstance(each, MakeFolder | Put)]
    if len(members) == len(inner) and _fits(members):
        yield _Unit(folder.path, members)
        return
    depth = folder.path.count("/") + 1
    direct = [each for each in members if isinstance(each, Put) and each.path.count("/") == depth]
    chosen: list[MakeFolder | Put] = []
    for each in direct:
        if not _fits([*chosen[-1:], each]) or len(chosen) >= _UNIT_FILES or _total(chosen) > _UNIT_BYTES:
            break
        chosen.append(each)
    taken = {each.path for each in chosen}
    yield _Unit(folder.path, chosen)
    yield from _units([each for each in inner if not (isinstance(each, Put) and each.path in taken)])


def _fits(members: Sequence[MakeFolder | Put]) -> bool:
    large = [each.entry for each in members if isinstance(each, Put) and _is_large(each.entry)]
    # a large file is renamed from the staging folder, which works once for each content
    return len(members) <= _UNIT_FILES and _total(members) <= _UNIT_BYTES and len(large) == len(set(large))


def _total(members: Sequence[MakeFolder | Put]) -> int:
    return sum(each.entry.size for each in members if isinstance(each, Put) and isinstance(each.entry, File))


def _packs(members: Sequence[MakeFolder | Put]) -> Iterator[list[MakeFolder | Put]]:
    pack: list[MakeFolder | Put] = []
    total = 0
    for each in members:
        is_sent = isinstance(each, Put) and isinstance(each.entry, File) and not _is_large(each.entry)
        size = each.entry.size if is_sent and isinstance(each, Put) and isinstance(each.entry, File) else 0
        if pack and (total + size > _PACK_BYTES or len(pack) >= _PACK_FILES):
            yield pack
            pack, total = [], 0
        pack.append(each)
        total += size
    if pack:
        yield pack


def _created(action: Action) -> str:
    return action.new_path if isinstance(action, Move) else action.path if isinstance(action, MakeFolder | Put) else ""


def _is_large(entry: Entry) -> bool:
    return isinstance(entry, File) and entry.size > SMALL_BYTES


def _is_same_content(put: Put) -> bool:
    return isinstance(put.entry, File) and isinstance(put.replaces, File) and put.entry.digest == put.replaces.digest


def _key(entry: File | Link) -> str:
    return entry.digest if isinstance(entry, File) else f"-> {entry.target}"


def _needs(request: list[Any]) -> str:
    """Return the digest of the content that a request takes from the staging folder."""
    is_file = request[0] == "put" and request[2][0] == "f" and request[4] is None
    return str(request[2][1]) if is_file else ""
