"""One folder that is kept equal with its other copy: scan both, decide, perform, remember."""

from __future__ import annotations

import asyncio
import json
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from jupyter_tpu.journal.sync_state import SyncState
from jupyter_tpu.sync import trees
from jupyter_tpu.sync.actions import Action, Delete, MakeFolder, Move, Put, actions
from jupyter_tpu.sync.conflict_names import ConflictNames
from jupyter_tpu.sync.entries import Fold, Folder, exactly
from jupyter_tpu.sync.ignore_rules import MOST_FILE_BYTES, Rule
from jupyter_tpu.sync.limits import Question, question
from jupyter_tpu.sync.reconcile import Conflict, Outcome, reconcile
from jupyter_tpu.sync.replica_client import ReplicaClient, ReplicaFailed
from jupyter_tpu.sync.transfers import Side, Transfer

Direction = Literal["both", "push", "pull"]
_SIDES = ("local", "remote")
_COMMIT_S = 5.0  # after a crash, at most the syncs of this time are compared by content again


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a sync did, or with `is_planned` would do.

    Args:
        local, remote: the actions on this machine and on the node.
        conflicts: files that both sides changed; both versions are kept.
        not_synced: why a path is not synced, by path.
        question: what the user has to confirm; nothing was done.
        is_complete: whether both sides are equal now, except for what is not synced.
        full: the side whose disk is full; "" if none.
        bytes_received: of contents, by side.
    """

    local: Sequence[Action]
    remote: Sequence[Action]
    conflicts: Sequence[Conflict] = ()
    not_synced: Mapping[str, str] = field(default_factory=dict)
    question: Question | None = None
    is_complete: bool = False
    full: str = ""
    bytes_received: Mapping[str, int] = field(default_factory=dict)


class SyncSession:
    """A folder and its other copy.

    Args:
        local, remote: the replicas.
        state: what both had in common after the last sync.
        node: the node's name, for the names of conflict copies.
        batch: most actions between two points at which a sync can be interrupted.
    """

    def __init__(
        self, local: ReplicaClient, remote: ReplicaClient, state: SyncState, *, node: str, batch: int = 500
    ) -> None:
        self._clients = {"local": local, "remote": remote}
        self._state = state
        self._node = node
        self._batch = batch
        self._committed_at = time.monotonic()

    async def run_once(
        self,
        rules: Sequence[Rule] = (),
        *,
        direction: Direction = "both",
        is_planned: bool = False,
        is_confirmed: bool = False,
        most_file_bytes: int = MOST_FILE_BYTES,
    ) -> SyncResult:
        """Sync once.

        Args:
            rules: what is ignored.
            direction: ``push`` changes only the node, ``pull`` only this machine, except for conflict copies.
            is_planned: only return what would be done.
            is_confirmed: whether the user agreed to send or delete very much.

        Raises:
            ReplicaFailed: a replica is lost, its folder is gone, or it does not make sense.
        """
        facts, stored = await asyncio.to_thread(self._state.load)
        hellos = await self._both(lambda client: client.ask("hello"))
        known = self._facts(hellos)
        if any(facts.get(name) != value for name, value in known.items()):
            facts, stored = dict(known), {}  # another folder, or another disk: as in the first sync
            await asyncio.to_thread(
                self._state.save, {**known, "local": "0", "remote": "0"}, {}, replaced=frozenset(("base", *_SIDES))
            )
        base = _tree(stored.get("base", {}))
        sides = {name: Side(client, trees.copied(base)) for name, client in self._clients.items()}
        revisions = await self._both(lambda client: client.scan(rules, most_file_bytes))
        changes = await asyncio.gather(*(self._clients[name].changes(int(facts.get(name, "0"))) for name in _SIDES))
        for (name, side), rows in zip(sides.items(), changes, strict=True):
            trees.overlay(side.tree, stored.get(name, {}).items())
            if int(facts.get(name, "0")) == 0:
                side.tree = _tree(dict(rows))
            else:
                trees.overlay(side.tree, rows)
            side.revision = side.scanned = revisions[name]

        fold = _fold([reply for reply, _ in hellos.values()])
        local, remote = trees.copied(sides["local"].tree), trees.copied(sides["remote"].tree)
        names = ConflictNames(self._node, _now(fold))
        outcome = reconcile(base=base, local=local, remote=remote, names=names, fold=fold)
        plans: dict[str, Sequence[Action]] = {
            "local": actions(local, outcome.local, fold),
            "remote": actions(remote, outcome.remote, fold),
        }
        plans = {name: _in_direction(plan, name, direction, outcome.conflicts) for name, plan in plans.items()}
        asked = next(filter(None, (question(plans[name], sides[name].tree) for name in _SIDES)), None)
        if is_planned or (asked is not None and not is_confirmed):
            return self._result(plans, outcome, sides, question=asked)
        return await self._perform(plans, outcome, sides, base, direction)

    async def _perform(
        self,
        plans: Mapping[str, Sequence[Action]],
        outcome: Outcome,
        sides: Mapping[str, Side],
        base: Folder,
        direction: Direction,
    ) -> SyncResult:
        saved = _Saved(base)

        async def after_batch() -> None:
            if time.monotonic() - self._committed_at > _COMMIT_S:
                await self._commit(saved, trees.common(base, sides["local"].tree, sides["remote"].tree), sides)

        # This machine first: until then, all contents of the node are where the scan found them. Afterwards, all
        # contents of this machine are where the outcome says.
        await Transfer(sides["local"], sides["remote"], after_batch, self._batch).run(plans["local"])
        await Transfer(sides["remote"], sides["local"], after_batch, self._batch).run(plans["remote"])
        is_done = not any(side.not_done for side in sides.values())
        reached = outcome.base if is_done and direction == "both" else base
        await self._commit(saved, trees.common(reached, sides["local"].tree, sides["remote"].tree), sides, is_last=True)
        return self._result(plans, outcome, sides, is_complete=is_done and direction == "both")

    async def _commit(self, saved: _Saved, base: Folder, sides: Mapping[str, Side], *, is_last: bool = False) -> None:
        """Remember what both sides have in common, once it is on their disks."""
        await self._both(lambda client: client.ask("save"))
        rows: dict[str, Mapping[str, list[Any] | None]] = {"base": trees.differences(saved.base, base)}
        facts = {}
        if is_last:
            # The revisions only count together with how the sides then differed from the base.
            rows.update({name: trees.differences(base, side.tree) for name, side in sides.items()})
            # After an action that was not done, the index may have more than the tree: the next scan lists it.
            facts = {name: str(side.scanned if side.not_done else side.revision) for name, side in sides.items()}
        replaced = frozenset(_SIDES if is_last else ())
        if is_last or rows["base"]:
            await asyncio.to_thread(self._state.save, facts, rows, replaced=replaced)
        saved.base = base
        self._committed_at = time.monotonic()

    def _result(
        self,
        plans: Mapping[str, Sequence[Action]],
        outcome: Outcome,
        sides: Mapping[str, Side],
        *,
        question: Question | None = None,
        is_complete: bool = False,
    ) -> SyncResult:
        not_synced: dict[str, str] = {}
        for side, wanted in zip(sides.values(), (outcome.local, outcome.remote), strict=True):
            not_synced.update({path: row[1] for path, row in trees.rows(side.tree) if row[0] == "b"})
            # the names that are one name on the other side
            left = trees.differences(outcome.base, wanted)
            not_synced.update({path: "same_name" for path, row in left.items() if row and row[0] in "fl"})
            not_synced.update(side.not_done)
        return SyncResult(
            local=plans["local"],
            remote=plans["remote"],
            conflicts=outcome.conflicts,
            not_synced=not_synced,
            question=question,
            is_complete=is_complete,
            full=next((name for name, side in sides.items() if side.is_full), ""),
            bytes_received={name: side.bytes_received for name, side in sides.items()},
        )

    async def _both(self, request: Any) -> dict[str, Any]:
        replies = await asyncio.gather(*(request(self._clients[name]) for name in _SIDES))
        return dict(zip(_SIDES, replies, strict=True))

    def _facts(self, hellos: Mapping[str, tuple[dict[str, Any], bytes]]) -> dict[str, str]:
        local, remote = (hellos[name][0] for name in _SIDES)
        try:
            return {
                "replicas": json.dumps([str(local["replica_id"])[:64], str(remote["replica_id"])[:64]]),
                "identity": json.dumps(local["identity"]),
            }
        except KeyError as error:
            raise ReplicaFailed("broken", f"no {error} in a hello") from error


@dataclass(slots=True)
class _Saved:
    base: Folder


def _tree(rows: Mapping[str, list[Any] | None]) -> Folder:
    tree: Folder = {}
    trees.overlay(tree, rows.items())
    return tree


def _fold(hellos: Sequence[Mapping[str, Any]]) -> Fold:
    is_case_insensitive = any(reply.get("is_case_insensitive") for reply in hellos)
    normalizes = any(reply.get("normalizes") for reply in hellos)
    if not is_case_insensitive and not normalizes:
        return exactly

    def fold(name: str) -> str:
        key = unicodedata.normalize("NFC", name) if normalizes else name
        return key.casefold() if is_case_insensitive else key

    return fold


def _now(fold: Fold) -> str:
    # a file system that ignores the case of letters may be one that forbids colons
    return datetime.now().strftime("%H:%M" if fold is exactly else "%H.%M")


def _in_direction(
    plan: Sequence[Action], side: str, direction: Direction, conflicts: Sequence[Conflict]
) -> Sequence[Action]:
    """Return the actions of a side that a direction allows: on the other side, only those that keep both versions."""
    if direction == "both" or (direction == "push") == (side == "remote"):
        return plan
    kept = [name for each in conflicts for name in (each.path, each.copy)]
    return [
        action
        for action in plan
        if isinstance(action, Put | MakeFolder | Move | Delete)
        and any(_target(action) == name or _target(action).startswith(f"{name}/") for name in kept)
    ]


def _target(action: Put | MakeFolder | Move | Delete) -> str:
    return action.new_path if isinstance(action, Move) else action.path
