"""Store the spans, the time intervals in which nodes were READY, for all of the user's processes.

Every method may block on the disk.

Each node has at most one open span, and an observation can only move its end forward, so two processes that observe the
same node never count time twice. If a process is killed, the next observation extends the span that the process left
open, provided that the node is still the same.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from jupyter_tpu.errors import BadInput, JournalUnwritable, Text
from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import Accrual, NodesObservation, accrue
from jupyter_tpu.money.spans import Span, as_counted
from jupyter_tpu.provisioning import PROVISIONING_MODELS

_COLUMNS = "node_name, uid, began_at, ended_at, is_open, usd_per_hour, body"


class Ledger:
    """The ledger of a project in a cloud; see `CloudSettings`."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._endpoint = endpoint
        self._prefix = f"projects/{project}/"

    def record(self, observation: NodesObservation) -> Accrual:
        """Update the spans from an observation. Ignore it if it is older than the last observation.

        Raises:
            JournalUnwritable: nothing was written; a later observation will add the missing time.
        """
        with self._journal.writing() as database:
            # read, decide and write in one transaction, so that two processes don't open two usage intervals
            spans = {span.name: span for span in self._read(database, "AND is_open = 1")}
            accrual = accrue(spans, self._gone_at(database), observation)
            self._save(database, (*accrual.extended, *accrual.closed), observation)
            database.executemany(
                f"INSERT INTO spans (endpoint, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(self._endpoint, *_row(span)) for span in accrual.opened],
            )
        return accrual

    def preview(self, observation: NodesObservation) -> Accrual:
        """Return the changes that an observation would make, without writing them; raises `JournalUnwritable`."""
        with self._journal.reading() as database:
            spans = {span.name: span for span in self._read(database, "AND is_open = 1")}
            return accrue(spans, self._gone_at(database), observation)

    def spans(self) -> tuple[Span, ...]:
        """Return all spans as sums count them, see `as_counted`, ordered by start time.

        Raises:
            JournalUnwritable: the spans cannot be read.
        """
        return _counted(self._observed())

    def _observed(self) -> list[Span]:
        with self._journal.reading() as database:
            return self._read(database, "ORDER BY began_at, rowid")

    def spans_if_recorded(self, observation: NodesObservation) -> tuple[Span, ...]:
        """Return all spans as they would be after recording an observation.

        Used while the disk is full, because the observation can't be written then.

        Raises the same errors as `spans`.
        """
        accrual = self.preview(observation)
        moved = {span.name: span for span in (*accrual.extended, *accrual.closed)}
        known = (moved.get(span.name, span) if span.is_open else span for span in self._observed())
        return _counted([*known, *accrual.opened])

    def readable_spans(self) -> tuple[Span, ...]:
        """Return all readable spans. Never use this to calculate costs, because unreadable spans are missing."""
        with self._journal.reading() as database:
            found = list[Span]()
            for row in self._rows(database, "ORDER BY began_at, rowid"):
                with contextlib.suppress(JournalUnwritable):
                    found.append(_span(row))
            return tuple(found)

    def _read(self, database: sqlite3.Connection, rest: str) -> list[Span]:
        return [_span(row) for row in self._rows(database, rest)]

    def _rows(self, database: sqlite3.Connection, rest: str) -> sqlite3.Cursor:
        return database.execute(
            # use substr instead of LIKE, because LIKE treats _ and % in a project's name as wildcards
            f"SELECT {_COLUMNS} FROM spans WHERE endpoint = ? AND substr(node_name, 1, ?) = ? {rest}",
            (self._endpoint, len(self._prefix), self._prefix),
        )

    def _gone_at(self, database: sqlite3.Connection) -> dict[NodeName, float]:
        """Return when each node without an open span was last observed as not READY (Unix seconds)."""
        rows = database.execute(
            "SELECT node_name, max(json_extract(body, '$.gone_at')) FROM spans"
            " WHERE endpoint = ? AND is_open = 0 AND substr(node_name, 1, ?) = ? GROUP BY node_name",
            (self._endpoint, len(self._prefix), self._prefix),
        )
        return {NodeName.parse(name): float(at) for name, at in rows if at is not None}

    def _save(self, database: sqlite3.Connection, spans: Iterable[Span], observation: NodesObservation) -> None:
        database.executemany(
            "UPDATE spans SET began_at = ?, ended_at = ?, is_open = ?, body = ?"
            " WHERE endpoint = ? AND node_name = ? AND is_open = 1",
            [
                (
                    span.began_at,  # moved to an earlier time if it was written while the clock was ahead
                    span.ended_at,
                    span.is_open,
                    _body(span, observation.seen_at(span.name)),
                    self._endpoint,
                    str(span.name),
                )
                for span in spans
            ],
        )


def _counted(observed: Iterable[Span]) -> tuple[Span, ...]:
    # a span with a gap before it begins earlier than it was observed
    return tuple(sorted(map(as_counted, observed), key=lambda span: span.began_at))


def _row(span: Span) -> tuple[object, ...]:
    name, price = str(span.name), span.usd_per_hour
    return (name, span.uid, span.began_at, span.ended_at, span.is_open, price, _body(span, span.ended_at))


def _body(span: Span, seen_at: float) -> str:
    body = {
        "accelerator_type": span.accelerator_type,
        "spot": span.spot,
        "unwatched_s": span.unwatched_before_s + span.unwatched_after_s,
        "unwatched_after_s": span.unwatched_after_s,
        "price_source": span.price_source,
        "provisioning": span.provisioning,
    }
    return json.dumps(body if span.is_open else {**body, "gone_at": seen_at})


def _span(row: tuple[str, str, float, float, int, float | None, str]) -> Span:
    try:
        body = json.loads(row[6])
        after_s = _unwatched_after_s(body, float(row[3]))
        return Span(
            name=NodeName.parse(row[0]),
            uid=row[1],
            accelerator_type=str(body["accelerator_type"]),
            spot=bool(body["spot"]),
            usd_per_hour=None if row[5] is None else float(row[5]),
            began_at=float(row[2]),
            ended_at=float(row[3]),
            is_open=bool(row[4]),
            unwatched_before_s=max(0.0, float(body["unwatched_s"]) - after_s),
            unwatched_after_s=after_s,
            price_source=str(body.get("price_source", "")),
            # earlier versions did not write this field, and later versions may have more models
            provisioning=next((each for each in PROVISIONING_MODELS if each == body.get("provisioning")), None),
        )
    except (ValueError, TypeError, KeyError, RecursionError, BadInput) as error:
        raise JournalUnwritable(
            Text("The ledger entry of {node} cannot be read.", node=repr(row[0][:100])),
            exists="No request was sent to the cloud.",
            hint="To start a new journal, move the journal file away; past costs are then unknown.",
            raw=repr(error),
        ) from error


def _unwatched_after_s(body: dict[str, Any], ended_at: float) -> float:
    """Return how long the node was unobserved after a span, in seconds.

    Earlier versions stored only the sum of the unobserved time before and after the span. For their data, the result is
    at most the time from the end of the span to ``gone_at``.
    """
    if "unwatched_after_s" in body:
        return float(body["unwatched_after_s"])
    gone_at = body.get("gone_at")
    return 0.0 if gone_at is None else min(float(body["unwatched_s"]), max(0.0, float(gone_at) - ended_at))
