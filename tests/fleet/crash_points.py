"""Processes with a fleet that kill themselves (SIGKILL) before or after a step of the journal.

Run by test_crash_points.py. Reads a JSON list of cases from standard input, plays each in a child of its own, and
prints how the children ended. A step is a transaction; its name is what it wrote: ``create asking``, ``recovery
clearing``, ``recovery clearing +`` (claimed) and ``-`` (let go), ``create asking 2`` (of the second node). With the
moment ``answered`` the step is a call of the cloud. A case without a step plays to its end and writes down which steps
there were.
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
from jupyter_tpu.fleet.capacity.queued_resources import Queue
from jupyter_tpu.fleet.capacity.recreate import RecreateController
from jupyter_tpu.fleet.capacity.search_controller import SearchController
from jupyter_tpu.fleet.capacity.search_service import SearchService
from jupyter_tpu.fleet.reconciler.fleet import Controller
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.database_file import open_database
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.lifecycle.search_state import Candidate
from jupyter_tpu.lifecycle.time_limits import Limits
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
    """Verb or kind, body and owner of all that is written down, and the number of lines in the audit log."""
    rows: Rows = {}
    intents = database.execute("SELECT intent_id, verb, body, owner FROM intents ORDER BY created_at").fetchall()
    names = list(dict.fromkeys(json.loads(body)["node_name"] for _, _, body, _ in intents))
    for key, verb, text, owner in intents:
        body = {**json.loads(text), "owner": "", "updated_at": 0}
        number = names.index(body["node_name"])
        rows[key] = (f"{verb} {body['phase']}" + (f" {number + 1}" if number else ""), body, owner)
    for name, kind, text in database.execute("SELECT name, kind, body FROM documents"):
        body = json.loads(text)
        rows[kind + name] = (f"{kind} {_standing(body)}", {**body, "owner": "", "updated_at": 0}, body["owner"])
    for seq, action in database.execute("SELECT seq, action FROM audit"):
        rows[f"audit {seq}"] = (f"audit {action}", {}, "")
    return rows


def _standing(body: dict[str, Any]) -> str:
    """How far a document has come: its phase, and of a search the last try."""
    if not body.get("tries"):
        return str(body["phase"])
    last = body["tries"][-1]
    signs = (
        "wished" if last["intent_id"] else "",
        "left" if last["deleted_at"] else "",
        "clean" if last["is_clean"] else "",
    )
    return " ".join(filter(None, (body["phase"], str(len(body["tries"])), last["outcome"], *signs)))


def steps_between(before: Rows, after: Rows) -> list[str]:
    """What a transaction has changed, in words; a line in the audit log counts where nothing else was written."""
    changed = [key for key in after if after[key] != before.get(key)]
    told = [key for key in changed if not key.startswith("audit ")] or changed
    return [f"{after[key][0]}{_sign(before.get(key), after[key])}" for key in told]


def _sign(before: Any, after: tuple[str, dict[str, Any], str]) -> str:
    if before is None or before[:2] != after[:2]:
        return ""
    return " +" if after[2] else " -"


class DyingCloud:
    """A cloud whose answer to a call kills who hears it."""

    def __init__(self, cloud: Any, method: str) -> None:
        self._cloud = cloud
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return self._answered if name == self._method else getattr(self._cloud, name)

    async def _answered(self, *arguments: Any, **options: Any) -> None:
        await getattr(self._cloud, self._method)(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)


async def play(case: dict[str, str]) -> None:
    """One case, up to its death."""
    cloud: Any = await connect_cloud(CloudSettings(project=case["project"], endpoint=case["grpc"]))
    folder = Path(case["folder"])
    journal = DyingJournal(folder / "journal.db", open_database(folder / "journal.db"))
    if case["moment"] == "answered":
        cloud = DyingCloud(cloud, case["step"])
    else:
        journal.moment, journal.step = case["moment"], case["step"]
    controllers = controllers_for(case["verb"], cloud, journal)
    polling = Polling(open_s=0.05, idle_s=0.5)
    fleet = Fleet(
        cloud, journal, ssh_user="me", public_key="ssh-ed25519 AAAA", polling=polling, controllers=controllers
    )
    await fleet.start()
    await perform(case, fleet, cloud, journal)
    (folder / "steps.json").write_text(json.dumps(journal.reached))


def controllers_for(verb: str, cloud: Any, journal: Journal) -> list[Controller]:
    if verb == "recover":
        return [RecreateController(cloud, journal, Limits(vanished_s=0.5))]
    return [SearchController(cloud, journal)] if verb == "search" else []


async def perform(case: dict[str, str], fleet: Fleet, cloud: Any, journal: DyingJournal) -> None:
    name = NodeName.parse(case["node"])
    spec = NodeSpec(name=name, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
    match case["verb"]:
        case "create":
            await fleet.wait((await fleet.create(spec)).intent_id)
        case "delete":
            await fleet.wait((await fleet.delete(name)).intent_id)
        case "stop":
            await fleet.wait((await fleet.stop(name)).intent_id)
        case "queue":
            await Queue(fleet, cloud, journal).add(spec)
        case "search":
            await searched(SearchService(cloud, journal), spec, case["other_zone"])
        case "recover":
            await recovered(journal, Recoveries(journal, endpoint=case["grpc"], project=case["project"]), name)


async def searched(desk: SearchService, spec: NodeSpec, other_zone: str) -> None:
    candidates = [
        Candidate(zone=zone, accelerator_type=spec.accelerator_type, runtime_version=spec.runtime_version)
        for zone in (spec.name.zone, other_zone)
    ]
    begun = await desk.begin(spec.name.node_id, candidates)
    async for search in desk.watch(begun.search_id, every_s=0.05):
        if search.has_ended:
            return


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
