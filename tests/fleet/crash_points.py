"""Processes with a fleet that kill themselves (SIGKILL) before or after a step of the journal.

Run by test_crash_points.py. Reads a JSON list of cases from standard input, plays each in a child of its own, and
prints how the children ended. A step is a transaction; its name is what it wrote: ``create asking``, ``recovery
clearing``, ``recovery clearing +`` (claimed) and ``-`` (let go). A case without a step plays to its end and writes down
which steps there were.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_tpu.cloud import CloudSettings, connect_cloud
from jupyter_tpu.fleet import Fleet, Polling
from jupyter_tpu.fleet.recovering import Recovering
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.opening import open_database
from jupyter_tpu.journal.recoveries import Recoveries
from jupyter_tpu.lifecycle.limits import Limits
from jupyter_tpu.models import NodeName, NodeSpec

AT_ONCE = 6
Rows = dict[str, tuple[str, dict[str, Any], str]]


class DyingJournal(Journal):
    """Dies at a step; `reached` has the steps up to now."""

    moment = ""
    step = ""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.reached: list[str] = []
        self.news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with super().writing() as database:
            before = rows_of(database)
            yield database
            steps = steps_between(before, rows_of(database))
            self._die_at("before", steps)
        self._die_at("after", steps)
        self.reached += steps
        self._loop.call_soon_threadsafe(self.news.set)

    def _die_at(self, moment: str, steps: list[str]) -> None:
        if moment == self.moment and self.step in steps:
            os.kill(os.getpid(), signal.SIGKILL)


def rows_of(database: sqlite3.Connection) -> Rows:
    """Verb or kind, body and owner of all that is written down."""
    rows: Rows = {}
    for key, verb, body, owner in database.execute("SELECT intent_id, verb, body, owner FROM intents"):
        rows[key] = (verb, {**json.loads(body), "owner": ""}, owner)
    for name, kind, text in database.execute("SELECT name, kind, body FROM documents"):
        body = json.loads(text)
        rows[kind + name] = (kind, {**body, "owner": ""}, body["owner"])
    return rows


def steps_between(before: Rows, after: Rows) -> list[str]:
    """What a transaction has changed, in words."""
    changed = [key for key in after if after[key] != before.get(key)]
    return [f"{after[key][0]} {after[key][1]['phase']}{_sign(before.get(key), after[key])}" for key in changed]


def _sign(before: Any, after: tuple[str, dict[str, Any], str]) -> str:
    if before is None or before[:2] != after[:2]:
        return ""
    return " +" if after[2] else " -"


async def play(case: dict[str, str]) -> None:
    """One case, up to its death."""
    settings = CloudSettings(project=case["project"], endpoint=case["grpc"])
    cloud = await connect_cloud(settings)
    folder = Path(case["folder"])
    journal = DyingJournal(folder / "journal.db", open_database(folder / "journal.db"))
    journal.moment, journal.step = case["moment"], case["step"]
    keepers = [Recovering(cloud, journal, Limits(vanished_s=0.5))] if case["verb"] == "recover" else []
    polling = Polling(open_s=0.05, idle_s=0.5)
    fleet = Fleet(cloud, journal, ssh_user="me", public_key="ssh-ed25519 AAAA", polling=polling, keepers=keepers)
    await fleet.start()
    name = NodeName.parse(case["node"])
    if case["verb"] == "recover":
        await recovered(journal, Recoveries(journal, endpoint=case["grpc"], project=case["project"]), name)
    else:
        await performed(fleet, name, case["verb"])
    (folder / "steps.json").write_text(json.dumps(journal.reached))


async def performed(fleet: Fleet, name: NodeName, verb: str) -> None:
    spec = NodeSpec(name=name, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    match verb:
        case "create":
            intent = await fleet.create(spec)
        case "delete":
            intent = await fleet.delete(name)
        case _:
            intent = await fleet.stop(name)
    await fleet.wait(intent.intent_id)


async def recovered(journal: DyingJournal, recoveries: Recoveries, name: NodeName) -> None:
    while not _is_done(recoveries, name):
        journal.news.clear()
        await journal.news.wait()


def _is_done(recoveries: Recoveries, name: NodeName) -> bool:
    recovery = recoveries.get(name)
    return recovery is not None and (recovery.phase, recovery.attempts, recovery.owner) == ("watching", 1, "")


def born(case: dict[str, str]) -> int:
    """The pid of a child that plays the case."""
    pid = os.fork()
    if pid == 0:
        asyncio.run(play(case))
        os._exit(0)
    return pid


def main() -> None:
    waiting = list(enumerate(json.load(sys.stdin)))
    living: dict[int, int] = {}
    ends: dict[int, int] = {}
    while waiting or living:
        while waiting and len(living) < AT_ONCE:
            number, case = waiting.pop(0)
            living[born(case)] = number
        pid, status = os.wait()
        ends[living.pop(pid)] = os.waitstatus_to_exitcode(status)
    print(json.dumps([ends[number] for number in sorted(ends)]))  # noqa: T201


if __name__ == "__main__":
    main()
