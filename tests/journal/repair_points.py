"""Processes that open a journal, or confirm its losses, and kill themselves (SIGKILL) before one of their steps.

Run by test_repair_points.py. Reads a JSON list of cases from standard input, plays each in a child of its own, and
prints how the children ended. What is repaired was damaged under another child, which lives meanwhile. A step is what a
process asks of the operating system about files of the journal's folder, as Python's audit events name it, or the end
of a transaction. A case without a step plays to its end and writes down which steps there were.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.journal import FILE_NAME
from jupyter_tpu.journal.losses import Losses

HERE = {"endpoint": "", "project": "demo-project"}
WEEKLY = {"amount": 20.0, "unit": "usd", "period": "week"}
AMOUNT, OTHER_AMOUNT = b'"amount": 20.0', b'"amount": 90.0'
EVENTS = ("open", "os.chmod", "os.link", "os.rename", "shutil.copyfile", "shutil.rmtree", "tempfile.mkdtemp")


@dataclass(frozen=True)
class Place:
    endpoint: str = HERE["endpoint"]
    project: str = HERE["project"]


class Steps:
    """Those up to now; the process dies before the one with that number."""

    def __init__(self, folder: Path, dies_before: int | None) -> None:
        self._folder = str(folder)
        self._dies_before = dies_before
        self.taken: list[str] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or (event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        names = [str(each) for each in arguments if isinstance(each, str | os.PathLike)]
        ours = [self._named(each) for each in names if each.startswith(self._folder)]
        if ours:
            self.take(" ".join([event, *ours]))

    def _named(self, path: str) -> str:
        name = path.removeprefix(f"{self._folder}/")
        return re.sub(r"\.journal-\w+", "scratch", re.sub(r"damaged-\d+T\d+Z?", "damaged", name))

    def take(self, step: str) -> None:
        if len(self.taken) == self._dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken.append(step)


class WatchedJournal(Journal):
    """A journal whose transactions are steps."""

    steps: Steps

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with super().writing() as database:
            yield database
            self.steps.take("transaction")


def play(case: dict[str, Any]) -> None:
    """One case, up to its death."""
    folder = Path(case["folder"])
    steps = WatchedJournal.steps = Steps(folder, case["dies_before"])
    if case["verb"] == "confirm":
        Losses(WatchedJournal.open(folder), **HERE).confirm(now=3000.0)
    else:
        sys.addaudithook(steps.hear)
        Journal.open(folder)
    if case["dies_before"] is None:
        folder.with_suffix(".json").write_text(json.dumps(steps.taken))


def live(case: dict[str, Any], ready: int) -> None:
    """A weekly budget in the file, and something else in its write-ahead log alone."""
    folder = Path(case["folder"])
    journal = Journal.open(folder)
    SpendLedger(journal, Place()).set_budget("weekly", WEEKLY, now=1.0)
    journal.close()
    journal = Journal.open(folder)
    if case["verb"] == "repair":
        SpendLedger(journal, Place()).set_budget("daily", {**WEEKLY, "period": "day"}, now=2.0)
    else:
        Audit(journal, **HERE).record(Entry(at=2.0, action="keep", subject="n", reason=""))
    os.write(ready, b"!")
    signal.pause()


def damage(case: dict[str, Any]) -> None:
    """The header, or one of the two places of the weekly budget."""
    folder = Path(case["folder"])
    content = (folder / FILE_NAME).read_bytes()
    at, other = (0, b"no SQLite at all") if case["verb"] == "repair" else (content.index(AMOUNT), OTHER_AMOUNT)
    with (folder / FILE_NAME).open("r+b") as file:
        file.seek(at)
        file.write(other)


@contextlib.contextmanager
def living(case: dict[str, Any]) -> Iterator[None]:
    """While another process has the journal open that is damaged."""
    ready, written = os.pipe()
    pid = os.fork()
    if pid == 0:
        live(case, written)
    os.read(ready, 1)
    damage(case)
    yield
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(written)


def ended(case: dict[str, Any]) -> int:
    """How a child ended that plays the case."""
    with living(case) if case["verb"].startswith("repair") else contextlib.nullcontext():
        pid = os.fork()
        if pid == 0:
            play(case)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    print(json.dumps([ended(case) for case in json.load(sys.stdin)]))  # noqa: T201
