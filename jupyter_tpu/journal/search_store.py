"""Store capacity searches for the server and the CLI. Only one process at a time runs a search.

A search is written before the intents of its attempts. Searches are documents of kind ``search``. Every method may
block on the disk, so don't call them in the event loop's thread.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from dataclasses import replace

from jupyter_tpu.error_actions import show_queue
from jupyter_tpu.errors import IntentNotFound, NodeExists, Text
from jupyter_tpu.journal.journal import ClaimLost, Journal
from jupyter_tpu.journal.owner import is_gone
from jupyter_tpu.lifecycle.search import resumed
from jupyter_tpu.lifecycle.search_state import Search

log = logging.getLogger(__name__)

_KIND = "search"


class Searches:
    """The searches of a project in a cloud."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._journal = journal
        self._place = (endpoint, project, _KIND)

    def begin(self, wanted: Search) -> Search:
        """Write a new search, or return an equal search that is open or has just found its node.

        Raises:
            NodeExists: another search for a node with that name is running.
            JournalUnwritable: the search was not written, so it must not be run.
        """
        with self._journal.writing() as database:
            for search in self._all(database):
                if search.node_id == wanted.node_id and _is_at_work(search, wanted.created_at):
                    # compare as sets, because the order depends on prices and grants
                    if set(search.candidates) == set(wanted.candidates):
                        return search
                    raise _other_running(search)
            chosen = replace(wanted, owner=self._journal.owner)
            self._put(database, chosen)
            return chosen

    def save(self, search: Search) -> Search:
        """Write the progress of a search. Return the stored search, which the user may have cancelled in the meantime.

        Raises:
            ClaimLost: another process now runs the search.
        """
        with self._journal.writing() as database:
            known = self._find(database, search.search_id)
            if known is None or known.owner != self._journal.owner:
                raise ClaimLost(search.search_id)
            # this is the only field that another process may set
            saved = replace(search, is_cancelled=search.is_cancelled or known.is_cancelled)
            self._put(database, saved)
            return saved

    def ours(self, now: float) -> tuple[Search, ...]:
        """Claim the searches whose processes have exited, and return all searches that this process now owns."""
        return tuple(each for each in (self._claimed(known, now) for known in self.all()) if each is not None)

    def _claimed(self, known: Search, now: float) -> Search | None:
        if known.owner == self._journal.owner:
            return known
        if known.has_ended or not is_gone(known.owner):
            return None
        with self._journal.writing() as database:
            # take over only from the owner that has exited, because another process may have been faster
            search = self._find(database, known.search_id)
            if search is None or search.owner != known.owner:
                return None
            taken = replace(resumed(search, now), owner=self._journal.owner)
            self._put(database, taken)
            return taken

    def cancel(self, search_id: str) -> Search:
        """Mark a search as cancelled; the process that runs it cleans up and finishes it.

        Raises:
            IntentNotFound: there is no such search.
        """
        with self._journal.writing() as database:
            known = self._find(database, search_id)
            if known is None:
                raise IntentNotFound(
                    "There is no such search.", hint="`jupyter tpu search` lists the searches.", actions=(show_queue(),)
                )
            if known.has_ended or known.is_cancelled:
                return known
            cancelled = replace(known, is_cancelled=True, message="The search is being cancelled.")
            self._put(database, cancelled)
            return cancelled

    def release(self) -> None:
        """Give up this process's searches, so that another process can claim them immediately."""
        with self._journal.writing() as database:
            for search in self._all(database):
                if search.owner == self._journal.owner:
                    self._put(database, replace(search, owner=""))

    def all(self) -> tuple[Search, ...]:
        """Return the open and recently finished searches, oldest first."""
        with self._journal.reading() as database:
            return self._all(database)

    def find(self, search_id: str) -> Search | None:
        """Return the search with this id, or None if it doesn't exist."""
        return next((each for each in self.all() if each.search_id == search_id), None)

    def forget(self, before: float) -> None:
        """Delete finished searches that were last updated before a time (Unix seconds)."""
        over = [each for each in self.all() if each.has_ended and each.updated_at < before]
        if over:
            with self._journal.writing() as database:
                for search in over:
                    self._remove(database, search.search_id)

    def _all(self, database: sqlite3.Connection) -> tuple[Search, ...]:
        rows = database.execute(
            "SELECT name, body FROM documents WHERE endpoint = ? AND project = ? AND kind = ?", self._place
        ).fetchall()
        found = [search for search in (_read(*row) for row in rows) if search is not None]
        return tuple(sorted(found, key=lambda search: (search.created_at, search.search_id)))

    def _find(self, database: sqlite3.Connection, search_id: str) -> Search | None:
        return next((each for each in self._all(database) if each.search_id == search_id), None)

    def _put(self, database: sqlite3.Connection, search: Search) -> None:
        database.execute(
            "INSERT OR REPLACE INTO documents (endpoint, project, kind, name, body, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*self._place, search.search_id, json.dumps(search.to_json()), search.updated_at),
        )

    def _remove(self, database: sqlite3.Connection, search_id: str) -> None:
        database.execute(
            "DELETE FROM documents WHERE endpoint = ? AND project = ? AND kind = ? AND name = ?",
            (*self._place, search_id),
        )


def _is_at_work(search: Search, since: float) -> bool:
    # a search that has just found its node also satisfies a request that arrived a moment later
    return not search.has_ended or (search.phase == "found" and search.updated_at >= since)


def _other_running(search: Search) -> NodeExists:
    return NodeExists(
        Text("A search for a node named {node} is already running, with other candidates.", node=search.node_id),
        exists=search.message,
        hint="Cancel that search first, or choose another name for the node.",
    )


def _read(name: str, text: str) -> Search | None:
    """Return the search, or None if it is damaged. Its attempts are stored as intents."""
    try:
        return Search.from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        log.warning("Left out the damaged search %.100s in the journal", name)
        return None
