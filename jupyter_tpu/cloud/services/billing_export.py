"""Questions to the export of Cloud Billing to BigQuery."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import CloudRefused, CloudUnavailable, PermissionDenied, TpuError
from jupyter_tpu.money.billed import COSTS, CREDITS, JSON, ExportTable, Periods, billed_view

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestDoor

EXPORT_VARIABLE = "JUPYTER_TPU_BILLING_EXPORT"

_TITLE, _HOST = "BigQuery API", "bigquery.googleapis.com"
_ROLES = "roles/bigquery.jobUser"
_MOST_BYTES = 10 * 2**30
"""What one query may scan: at list price less than $0.07."""

_MOST_PAGES = 100
_MOST_WAITS = 6
_WAIT_MS = 20_000


async def read_billed(
    settings: CloudSettings, table: ExportTable, environment: Mapping[str, str] | None = None
) -> JSON:
    """What was billed to the project of the settings in this month and in the last 30 days, see `billed_view`.

    `environment` says where an emulator is; None: that of this process.

    Raises:
        ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: it was refused, or is empty.
        CloudUnavailable: no answer, or none that can be read.
    """
    variables = os.environ if environment is None else environment
    return await asyncio.to_thread(_read, settings, table, variables)


def _read(settings: CloudSettings, table: ExportTable, environment: Mapping[str, str]) -> JSON:
    # Google's client takes a while to import, which must not happen in the event loop
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    periods, as_of = _periods(datetime.now(UTC)), time.time()
    parameters = {"project": settings.project, "since": periods.since}
    door: RestDoor = rest.RestDoor.open(settings, rest.Service(title=_TITLE, host=_HOST, role=_ROLES), environment)
    with closing(door):
        answers = [
            list(_rows(door, settings.project, table, table.asked(query), parameters)) for query in (COSTS, CREDITS)
        ]
    view = billed_view(*answers, table=table, project=settings.project, periods=periods)
    return {"as_of": as_of, **view}


def _periods(now: datetime) -> Periods:
    month, recent = now.replace(day=1), now - timedelta(days=29)
    return Periods(month=month.date().isoformat(), last_30_days=recent.date().isoformat())


def _rows(
    door: RestDoor, project: str, table: ExportTable, query: str, parameters: Mapping[str, str]
) -> Iterator[Mapping[str, str | None]]:
    """All rows of a query's answer."""
    path = f"/bigquery/v2/projects/{quote(project, safe=':')}/queries"
    answer = _asked(door, path, table, query_body(query, parameters))
    results, where = _place(path, answer.get("jobReference"))
    for _ in range(_MOST_WAITS):
        if answer.get("jobComplete"):
            break
        answer = door.read(results, where)
    else:
        raise CloudUnavailable("BigQuery has not answered within minutes.", hint="Try again later.")
    names = _names(answer)
    for _ in range(_MOST_PAGES):
        yield from _page(names, answer.get("rows", []))
        token = answer.get("pageToken")
        if not token:
            return
        answer = door.read(results, {**where, "pageToken": str(token)})
    raise CloudUnavailable("The answer of BigQuery has too many pages.", hint="Look at the export in the console.")


def _place(path: str, job: Any) -> tuple[str, Mapping[str, str]]:
    """Where the rest of an answer is."""
    known = job if isinstance(job, dict) else {}
    location = {"location": str(known["location"])} if known.get("location") else {}
    return f"{path}/{quote(str(known.get('jobId', '')), safe='')}", {**location, "timeoutMs": str(_WAIT_MS)}


def query_body(query: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    """The body of jobs.query."""
    return {
        "query": query,
        "useLegacySql": False,
        "parameterMode": "NAMED",
        "queryParameters": [
            {"name": name, "parameterType": {"type": "STRING"}, "parameterValue": {"value": value}}
            for name, value in parameters.items()
        ],
        "maximumBytesBilled": str(_MOST_BYTES),
        "timeoutMs": _WAIT_MS,
    }


def _asked(door: RestDoor, path: str, table: ExportTable, body: Mapping[str, Any]) -> Mapping[str, Any]:
    status, text = door.post(path, {}, body)
    if status == 200:
        return door.parsed(text)
    raise _refusal(door.refusal(status, text), status, table)


def _refusal(error: TpuError, status: int, table: ExportTable) -> TpuError:
    """In words of the table, where it is what was refused."""
    if status == 404:
        return CloudRefused(
            f"There is no table {table} in BigQuery.",
            hint="Check its name in the Cloud console under Billing, Billing export; a new export gets its table after "
            "some hours.",
            raw=error.raw,
        )
    if isinstance(error, PermissionDenied) and "bigquery.jobs.create" not in error.raw:
        return PermissionDenied(
            f"You may not read the table {table}.",
            hint="Ask an owner of its project for the role roles/bigquery.dataViewer on the dataset "
            f"{table.project}.{table.dataset}.",
            raw=error.raw,
        )
    if re.search("bytesBilledLimitExceeded|bytes billed", error.raw):
        return CloudRefused(
            f"The table {table} is so large that reading it would cost more than we ask for without you.",
            hint=f"The limit is {_MOST_BYTES // 2**30} GiB. Name a view or a copy with the costs of this project only.",
            raw=error.raw,
        )
    return error


def _names(answer: Mapping[str, Any]) -> Sequence[str]:
    try:
        return [str(each["name"]) for each in answer["schema"]["fields"]]
    except (KeyError, TypeError) as error:
        raise _unreadable(error) from error


def _page(names: Sequence[str], rows: Any) -> list[Mapping[str, str | None]]:
    try:
        return [dict(zip(names, (each["v"] for each in row["f"]), strict=True)) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> TpuError:
    return CloudUnavailable(
        f"The answer of the {_TITLE} cannot be read.", hint="Try again in a minute.", raw=repr(error)
    )
