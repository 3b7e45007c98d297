"""Store the user's grants and log each change in the audit log. Every method may block on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.error_actions import show_grants
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.journal import Journal
from jupyter_tpu.journal.user_documents import Document, Documents
from jupyter_tpu.money.grants import Grant, checked_name, grant_from_json
from jupyter_tpu.money.project_ids import check_project

_KIND = "grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGrants:
    """The stored grants. `broken` contains the grants that this version cannot read, by name."""

    grants: tuple[Grant, ...] = ()
    broken: Mapping[str, TpuError]


class Grants:
    """The grants of a project in a cloud."""

    def __init__(self, journal: Journal, *, endpoint: str, project: str) -> None:
        self._project = project
        self._documents = Documents(journal, endpoint=endpoint, project=project)
        self._audit = Audit(journal, endpoint=endpoint, project=project)

    def read(self) -> WrittenGrants:
        """Return all grants, by name.

        Raises:
            JournalUnwritable: the journal cannot be read.
        """
        grants, broken = list[Grant](), dict[str, TpuError]()
        for each in self._documents.each(_KIND):
            if isinstance(each, Document):
                self._sort(each, grants, broken)
            else:
                broken[each[0]] = each[1]
        return WrittenGrants(grants=tuple(grants), broken=broken)

    def _sort(self, document: Document, grants: list[Grant], broken: dict[str, TpuError]) -> None:
        try:
            grants.append(grant_from_json(document.name, document.body))
        except BadInput as problem:
            broken[document.name] = problem

    def put(self, grant: Grant, *, now: float) -> None:
        """Write a grant, replacing any grant with the same name.

        Raises:
            BadInput: the project's id is invalid.
            JournalUnwritable: nothing has changed.
        """
        # reject a project number or a misspelt ID: such a grant would cover nothing
        check_project(self._project)
        self._documents.put(_KIND, grant.name, grant.to_json(), now=now)
        # log all values; the earlier entries contain the previous ones
        self._note(
            grant.name, Text("The user entered the grant: {summary}.", summary=_summary(grant)), grant.to_json(), now
        )

    def remove(self, name: str, *, now: float) -> None:
        """Remove a grant.

        Raises:
            BadInput: no grant has that name.
            JournalUnwritable: nothing has changed.
        """
        if not self._documents.remove(_KIND, checked_name(name)):
            raise BadInput(
                Text("There is no grant {grant}.", grant=name),
                hint="`jupyter tpu grant list` lists the grants.",
                actions=(show_grants(),),
            )
        reason = Text("The user removed the grant: all usage that it covered counts as billed, including past usage.")
        self._note(name, reason, {}, now)

    def _note(self, name: str, reason: str, detail: Mapping[str, Any], now: float) -> None:
        self._audit.record(Entry(at=now, action="grant", subject=name, reason=reason, detail=detail))


def _summary(grant: Grant) -> Text:
    days = {"first_day": grant.starts_on, "last_day": grant.ends_on}
    if grant.usd is not None:
        return Text("${usd} of credit, from {first_day} to {last_day}").with_arguments(usd=f"{grant.usd:.2f}", **days)
    chips = sum(row.chips for row in grant.rows)
    if chips == 1:
        return Text("1 chip, from {first_day} to {last_day}").with_arguments(**days)
    return Text("{chips} chips, from {first_day} to {last_day}").with_arguments(chips=chips, **days)
