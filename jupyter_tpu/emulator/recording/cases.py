"""One request and its response, as a file that `record` writes and `replay-check` replays.

The golden cases of the tests have the same fields (and more), so a recorded case can be turned into a golden case by
hand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CaseUnreadable(Exception):
    """A file is not a recorded case; the message contains the file's name and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recorded request with its response; their texts may contain placeholders (see `wildcards`).

    Attributes:
        request: verb, path and query, such as ``DELETE /v2/projects/<project-1>/locations/z/nodes/n?force=True``.
        body: the body of the request, or None.
        answer: the body of the response; a string if it was not JSON.
        after_s: seconds between the first request of the recording and this one.
    """

    name: str
    request: str
    body: Any
    status: int
    answer: Any
    after_s: float
    standing: str
    source: str

    @property
    def verb(self) -> str:
        """The HTTP verb."""
        return self.request.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path and the query of the request."""
        return self.request.partition(" ")[2]

    def to_json(self) -> dict[str, Any]:
        """Return the case as the JSON that is written to its file."""
        return {
            "name": self.name,
            "standing": self.standing,
            "source": self.source,
            "after_s": self.after_s,
            "request": self.request,
            "body": self.body,
            "status": self.status,
            "answer": self.answer,
        }


def case_from_json(data: Mapping[str, Any]) -> Case:
    """Parse a case; raises KeyError, TypeError or ValueError if it is invalid."""
    verb, _, path = str(data["request"]).partition(" ")
    if not (verb.isupper() and path.startswith("/")):
        raise ValueError(f"{data['request']!r} is not of the form VERB /path")
    return Case(
        name=str(data["name"]),
        request=str(data["request"]),
        body=data.get("body"),
        status=int(data["status"]),
        answer=data.get("answer"),
        after_s=float(data.get("after_s", 0.0)),
        standing=str(data.get("standing", "recorded")),
        source=str(data.get("source", "")),
    )


def write_case(folder: Path, case: Case) -> Path:
    """Write a case to a new file that only the user can read. Raises OSError if the file exists or can't be written."""
    path = folder / f"{case.name}.json"
    # O_EXCL, so that a recording never overwrites a case
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(case.to_json(), file, indent=2, ensure_ascii=False)
        file.write("\n")
    return path


def read_cases(folder: Path) -> list[Case]:
    """Return all cases in a folder, sorted by name. Raises CaseUnreadable."""
    if not folder.is_dir():
        raise CaseUnreadable(f"{folder} is not a folder")
    return [_read_case(path) for path in sorted(folder.glob("*.json"))]


def _read_case(path: Path) -> Case:
    try:
        return case_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CaseUnreadable(f"{path} is not a recorded case: {type(error).__name__}: {error}") from error


def last_number(folder: Path) -> int:
    """Return the highest number at the start of a case name in the folder, or 0 if there is no case."""
    heads = (path.name.partition("-")[0] for path in folder.glob("*.json"))
    return max((int(head) for head in heads if head.isdecimal()), default=0)
