"""Seeded `kill -9` of the processes that ask the cloud for what costs money, while every third call of the cloud fails.

Each kill hits a change of a node: the command line, or the server that was asked over REST, dies a moment after it has
written down that it will ask. A server of the same user goes on. In the end it must list every node that the cloud
bills, with a rule that ends it; nothing may stay open; and what was to be deleted must be gone.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from journey_place import ZONE, Place, wait_for

NODES = ("first", "second", "third")
TYPE, VERSION = "v5litepod-8", "v2-alpha-tpuv5-lite"
FAILING = 0.3
LATEST_KILL_S = 0.3
"""After the wish was written down: asking the cloud and hearing its operation takes about as long here."""
WITHIN_S = 120.0
_KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "error", "code": 503},
    {"kind": "error", "code": 429},
    {"kind": "error", "code": 504, "applied": True},
)
_EXISTS = {"READY": ("stop", "delete"), "STOPPED": ("start", "delete")}


@dataclass(frozen=True)
class Kill:
    """What is asked for, of whom, and how long after it was written down that one dies."""

    verb: str
    node_id: str
    by_server: bool
    after_s: float

    def __str__(self) -> str:
        return (
            f"{self.verb} {self.node_id} by {'server' if self.by_server else 'command'}, {self.after_s * 1000:.0f} ms"
        )


def let_calls_fail(place: Place, seed: int) -> None:
    """Until they are cleared, 30 % of all calls of the TPU API: refused, over quota, or done though too late."""
    each = 1 - (1 - FAILING) ** (1 / len(_KINDS))
    for number, kind in enumerate(_KINDS):
        fields = {name: value for name, value in kind.items() if name != "kind"}
        place.cloud.add_fault("*", kind["kind"], times=None, probability=each, seed=seed + number, **fields)


def kill(place: Place, seed: int) -> tuple[Kill, list[str]]:
    """One kill, and what was wrong once everything had come to rest."""
    rng = random.Random(f"kill {seed}")
    node_id = rng.choice(NODES)
    state = _states(place).get(node_id)
    verb = rng.choice(_EXISTS.get(state, ("delete",))) if state else "create"
    chosen = Kill(verb, node_id, rng.random() < 1 / 3, rng.uniform(0, LATEST_KILL_S))
    (_kill_server if chosen.by_server else _kill_command)(place, chosen)
    try:
        wait_for(lambda: not _wrong(place, chosen), lambda: "", WITHIN_S)
    except AssertionError:
        return chosen, _wrong(place, chosen) or ["it came to rest late"]
    return chosen, []


def _kill_command(place: Place, chosen: Kill) -> None:
    asked = [chosen.verb, chosen.node_id, "--zone", ZONE, *(["--type", TYPE] if chosen.verb == "create" else [])]
    known = _wishes(place)
    command = [sys.executable, "-m", "jupyter_tpu.cli", *asked, "--yes", "--json"]
    with place.log_file("commands").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=place.environment)
    _wait_for_wish(place, known, lambda: process.poll() is not None)
    time.sleep(chosen.after_s)
    process.kill()
    process.wait()


def _kill_server(place: Place, chosen: Kill) -> None:
    route = f"jupyter-tpu/v1/nodes/{ZONE}/{chosen.node_id}"
    new = {"node_id": chosen.node_id, "zone": ZONE, "accelerator_type": TYPE, "runtime_version": VERSION}
    with suppress(RuntimeError):  # a failing call of the cloud: it says so, and nothing was asked
        if chosen.verb == "create":
            place.ask("POST", "jupyter-tpu/v1/nodes", new)
        elif chosen.verb == "delete":
            place.ask("DELETE", route)
        else:
            place.ask("POST", f"{route}/{chosen.verb}")
    time.sleep(chosen.after_s)
    assert place.server is not None
    place.server.send_signal(signal.SIGKILL)
    place.server.wait()
    place.start_server()


def _wait_for_wish(place: Place, known: set[str], has_ended: Callable[[], bool]) -> None:
    """Looked at by the millisecond: half of what is of interest happens in the next hundred."""
    while not (_wishes(place) - known or has_ended()):
        time.sleep(0.001)


def _wishes(place: Place) -> set[str]:
    path = place.folder / "tpu_data" / "journal.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        return {row[0] for row in journal.execute("SELECT intent_id FROM intents")}


def _was_wished(place: Place, chosen: Kill) -> bool:
    """Whether the newest wish about the node is that one; a process may die before it has written down any."""
    path = place.folder / "tpu_data" / "journal.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        rows = journal.execute("SELECT verb, node_name, body FROM intents ORDER BY created_at").fetchall()
    mine = [(verb, json.loads(body)) for verb, name, body in rows if name.endswith(f"/{chosen.node_id}")]
    return bool(mine) and mine[-1][0] == chosen.verb and not mine[-1][1].get("error")


def _states(place: Place) -> dict[str, str]:
    """Of the nodes, by the books of the emulated cloud."""
    return {node["name"].rpartition("/")[2]: node["state"] for node in place.cloud.state()["nodes"]}


def _wrong(place: Place, chosen: Kill) -> list[str]:
    """What is not at rest, or not as it should be. The server may not have read yet what a command had written down."""
    state = _states(place).get(chosen.node_id)
    is_left = chosen.verb == "delete" and state is not None and _was_wished(place, chosen)
    left = [f"{chosen.node_id} is still there: {state}"] if is_left else []
    return [*_open_wishes(place), *_complaints(place), *left]


def _open_wishes(place: Place) -> list[str]:
    wishes = place.ask("GET", "jupyter-tpu/v1/nodes")["intents"]
    return [f"open: {each['verb']} {each['node_id']}, {each['message']}" for each in wishes if not each["settled"]]


def _complaints(place: Place) -> list[str]:
    """Nodes that the cloud bills and that the user does not see, or that nothing ends."""
    listed = {node["name"] for node in place.ask("GET", "jupyter-tpu/v1/nodes")["nodes"]}
    rules = {each["name"]: each for each in place.ask("GET", "jupyter-tpu/v1/autostop")["nodes"]}
    complaints = []
    for name in place.cloud.billing():
        if name not in listed:
            complaints.append(f"{name} is billed and not listed")
        elif not any(rules.get(name, {}).get(rule) for rule in ("idle_after_s", "session_s", "deadline_at")):
            complaints.append(f"{name} is billed and nothing ends it")
    return complaints
