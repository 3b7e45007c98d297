"""Read Google's charges from Cloud Billing's export to BigQuery."""

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
from jupyter_tpu.errors import CloudRefused, CloudUnavailable, PermissionDenied, Text, TpuError
from jupyter_tpu.money.billed import COSTS, CREDITS, JSON, ExportTable, Periods, billed_view

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestClient


_TITLE, _HOST = "BigQuery API", "bigquery.googleapis.com"
_ROLES = "roles/bigquery.jobUser"
# Maximum number of bytes that one query may scan. The user pays for it: less than $0.07 at list price.
_MOST_BYTES = 10 * 2**30

# Maximum number of pages to read, in case the results never end.
_MOST_PAGES = 100
# A query may take 6 × 20 s. Each wait is one request, so it must be shorter than the REST client's timeout of 30 s.
_MOST_WAITS = 6
_WAIT_MS = 20_000


async def read_billed(
    settings: CloudSettings, table: ExportTable, environment: Mapping[str, str] | None = None
) -> JSON:
    """Return the project's charges for this month and the last 30 days; see `billed_view`.

    Args:
        environment: environment variables, which may name an emulator; None for those of this process.

    Raises:
        ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: the query was refused, or the
            export is empty.
        CloudUnavailable: there was no response, or the response can't be read.
    """
    variables = os.environ if environment is None else environment
    return await asyncio.to_thread(_read, settings, table, variables)


def _read(settings: CloudSettings, table: ExportTable, environment: Mapping[str, str]) -> JSON:
    # Importing Google's client is slow and must not block the event loop; this function runs in a thread.
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    periods, as_of = _periods(datetime.now(UTC)), time.time()
    parameters = {"project": settings.project, "since": periods.since}
    service = rest.Service(title=_TITLE, host=_HOST, role=_ROLES)
    client: RestClient = rest.RestClient.open(settings, service, environment)
    with closing(client):
        answers = [
            list(_rows(client, settings.project, table, table.sql(query), parameters)) for query in (COSTS, CREDITS)
        ]
    view = billed_view(*answers, table=table, project=settings.project, periods=periods)
    return {"as_of": as_of, **view}


def _periods(now: datetime) -> Periods:
    month, recent = now.replace(day=1), now - timedelta(days=29)
    return Periods(month=month.date().isoformat(), last_30_days=recent.date().isoformat())


def _rows(
    client: RestClient, project: str, table: ExportTable, query: str, parameters: Mapping[str, str]
) -> Iterator[Mapping[str, str | None]]:
    """Run a query and yield all rows of its result."""
    path = f"/bigquery/v2/projects/{quote(project, safe=':')}/queries"
    answer = _run_query(client, path, table, query_body(query, parameters))
    results, where = _place(path, answer.get("jobReference"))
    # The first response to a long query has no rows; poll its job until it is complete.
    for _ in range(_MOST_WAITS):
        if answer.get("jobComplete"):
            break
        answer = client.read(results, where)
    else:
        raise CloudUnavailable("BigQuery did not respond within 2 minutes.", hint="Try again later.")
    # Only the first page has the column names.
    names = _names(answer)
    for _ in range(_MOST_PAGES):
        yield from _page(names, answer.get("rows", []))
        token = answer.get("pageToken")
        if not token:
            return
        answer = client.read(results, {**where, "pageToken": str(token)})
    raise CloudUnavailable("BigQuery's response has too many pages.", hint="View the export in the Cloud console.")


def _place(path: str, job: Any) -> tuple[str, Mapping[str, str]]:
    """Return the path and query parameters for polling a query and reading its result."""
    known = job if isinstance(job, dict) else {}
    location = {"location": str(known["location"])} if known.get("location") else {}
    return f"{path}/{quote(str(known.get('jobId', '')), safe='')}", {**location, "timeoutMs": str(_WAIT_MS)}


def query_body(query: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Build the body of jobs.query."""
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


def _run_query(client: RestClient, path: str, table: ExportTable, body: Mapping[str, Any]) -> Mapping[str, Any]:
    status, text = client.post(path, {}, body)
    if status == 200:
        return client.parsed(text)
    raise _refusal(client.refusal(status, text), status, table)


def _refusal(error: TpuError, status: int, table: ExportTable) -> TpuError:
    """Add the table's name to the error if access to the table was refused."""
    if status == 404:
        return CloudRefused(
            Text("There is no table {table} in BigQuery.", table=table),
            hint="Check the table's name in the Cloud console under Billing, Billing export. A new export gets its "
            "table after some hours.",
            raw=error.raw,
        )
    if isinstance(error, PermissionDenied) and "bigquery.jobs.create" not in error.raw:
        return PermissionDenied(
            Text("You don't have permission to read the table {table}.", table=table),
            hint=Text(
                "Ask an owner of the table's project for the role roles/bigquery.dataViewer on the dataset "
                "{project}.{dataset}.",
                project=table.project,
                dataset=table.dataset,
            ),
            raw=error.raw,
        )
    if re.search("bytesBilledLimitExceeded|bytes billed", error.raw):
        return CloudRefused(
            Text(
                "The table {table} is too large: reading it would scan more than {gib} GiB.",
                table=table,
                gib=_MOST_BYTES // 2**30,
            ),
            hint="Use a view or a copy with only the costs of this project.",
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
        Text("The response from the {service} cannot be read.", service=_TITLE),
        hint="Try again in a minute.",
        raw=repr(error),
    )
