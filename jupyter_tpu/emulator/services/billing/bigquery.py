"""BigQuery v2 for the export of the billing account: ``jobs.query`` with two fixed queries and no other SQL."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jupyter_tpu.emulator.access.permissions import is_denied
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.billing.catalogue import ACCOUNT_ID
from jupyter_tpu.emulator.services.billing.export import CREDIT_NAME, CREDIT_TYPE, Exported, exported
from jupyter_tpu.emulator.services.requests import shapes as shapes
from jupyter_tpu.emulator.services.requests.errors import ComputeRefusal
from jupyter_tpu.emulator.services.requests.service_calls import GoogleService, Method, ServiceCall
from jupyter_tpu.emulator.store.ledger import NANOS
from jupyter_tpu.money.billed import COSTS, CREDITS

_TABLE = re.compile(r"FROM `([^`]*)`")
_READ, _RUN = "bigquery.tables.getData", "bigquery.jobs.create"
_SHAPE = {
    "query": shapes.text,
    "useLegacySql": shapes.boolean,
    "parameterMode": shapes.text,
    "queryParameters": [
        {"name": shapes.text, "parameterType": {"type": shapes.text}, "parameterValue": {"value": shapes.text}}
    ],
    "maximumBytesBilled": shapes.int64,
    "timeoutMs": shapes.int64,
    "maxResults": shapes.int64,
    "location": shapes.text,
    "kind": shapes.text,
}
_COST_COLUMNS = {
    **dict.fromkeys(("day", "service", "sku", "currency"), "STRING"),
    **dict.fromkeys(("cost", "credits"), "FLOAT"),
    "exported": "STRING",
}
_CREDIT_COLUMNS = {**dict.fromkeys(("day", "type", "name"), "STRING"), "amount": "FLOAT"}

Row = tuple[str, ...]


class _Refused(ComputeRefusal):
    """A BigQuery error; its response body also contains the status."""

    def __init__(self, code: int, status: str, message: str, reason: str) -> None:
        super().__init__(code, message, reason)
        self._status = status

    def to_json(self) -> Mapping[str, Any]:
        """Return the body of the response."""
        return {"error": {**super().to_json()["error"], "status": self._status}}


def bigquery_service(cloud: Cloud) -> GoogleService:
    """Return the BigQuery service, which has a single method."""
    return GoogleService(
        name="bigquery",
        # claim all of BigQuery's paths, so that an unsupported method gets BigQuery's own error
        owns=r"bigquery/v2/.*",
        methods=(
            Method(
                verb="POST",
                path="bigquery/v2/projects/{project}/queries",
                answer=BigQuery(cloud).query,
                permission=_RUN,
            ),
        ),
        unnamed="v2/",
        makes="insert",
        denial=_denied,
    )


@assumed(
    "bigquery-refusals", "The error messages of the emulated BigQuery follow those that users of BigQuery have quoted."
)
def _denied(permission: str, project: str) -> Exception:
    message = f"Access Denied: Project {project}: User does not have {permission} permission in project {project}."
    return _Refused(403, "PERMISSION_DENIED", message, "accessDenied")


class BigQuery:
    """The BigQuery API for one read-only table."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._jobs = itertools.count(1)

    @property
    @documented(
        "export-table",
        "The standard usage cost data are in a table named gcp_billing_export_v1_ and the billing account's id.",
        source="cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage",
    )
    @assumed(
        "export-dataset",
        "The billing export table is in the dataset `billing` of the emulated project, in the location US.",
    )
    def table(self) -> str:
        """The full name of the table."""
        return f"{self._cloud.project}.billing.gcp_billing_export_v1_{ACCOUNT_ID.replace('-', '_')}"

    @assumed(
        "bigquery-two-queries",
        "The emulator does not interpret SQL: it supports exactly the two queries of `jupyter tpu cost --billed`, "
        "with their parameters, and refuses all others. This does not prove that the real service understands them.",
    )
    def query(self, call: ServiceCall) -> Mapping[str, Any]:
        """Handle ``jobs.query``: return the result of one of the two supported queries."""
        shapes.check_shape(call.body, _SHAPE, "")
        if call.parts["project"] != self._cloud.project:
            raise _denied(_RUN, call.parts["project"])
        sql = str(call.body.get("query", ""))
        # compare the queries without the table's name, which the user chooses
        named = _TABLE.search(sql)
        # require an exact match: the emulator doesn't parse SQL, so a changed query of the product must fail here
        answer = self._answers().get(sql.replace(named[1], "{table}", 1) if named else "")
        if answer is None or call.body.get("useLegacySql", True) or named is None:
            message = "The emulator understands only the queries of jupyter tpu cost --billed."
            raise _Refused(400, "INVALID_ARGUMENT", message, "invalidQuery")
        self._check_table(named[1])
        columns, rows = answer(_parameters(call.body))
        return self._response(columns, rows)

    def _answers(self) -> Mapping[str, Callable[[Mapping[str, str]], tuple[Mapping[str, str], list[Row]]]]:
        return {COSTS: self._costs, CREDITS: self._credits}

    def _check_table(self, name: str) -> None:
        shown = name.replace(".", ":", 1)
        if is_denied(_READ, self._cloud.rules.project.switches.denied_permissions):
            denied = f"User does not have permission to query table {shown}, or perhaps it does not exist."
            raise _Refused(403, "PERMISSION_DENIED", f"Access Denied: Table {shown}: {denied}", "accessDenied")
        if name != self.table:
            raise _Refused(404, "NOT_FOUND", f"Not found: Table {shown} was not found in location US", "notFound")

    def _exported(self, parameters: Mapping[str, str]) -> list[Exported]:
        """Return the rows for the project in the parameters, starting on the day in the parameters."""
        now, switches = self._cloud.clock.now(), self._cloud.rules.project.switches
        # an export contains all projects of a billing account; other projects have no rows here
        if parameters["project"] != self._cloud.project:
            return []
        rows = exported(self._cloud.ledger.bills(now), now, switches.promotional_credit_usd)
        return [row for row in rows if row.day >= parameters["since"]]

    def _costs(self, parameters: Mapping[str, str]) -> tuple[Mapping[str, str], list[Row]]:
        sums: dict[Row, tuple[int, int]] = {}
        for row in self._exported(parameters):
            key = (row.day, row.service, row.sku, "USD")
            cost, credit = sums.get(key, (0, 0))
            sums[key] = (cost + row.cost, credit + row.credit)
        # the column `exported`: the time up to which the rows are complete
        until = datetime.fromtimestamp(self._cloud.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return _COST_COLUMNS, [(*key, _dollars(sums[key][0]), _dollars(sums[key][1]), until) for key in sorted(sums)]

    def _credits(self, parameters: Mapping[str, str]) -> tuple[Mapping[str, str], list[Row]]:
        sums: dict[str, int] = {}
        for row in self._exported(parameters):
            if row.credit:
                sums[row.day] = sums.get(row.day, 0) + row.credit
        return _CREDIT_COLUMNS, [(day, CREDIT_TYPE, CREDIT_NAME, _dollars(sums[day])) for day in sorted(sums)]

    @documented(
        "bigquery-response",
        "The response to a completed query contains its schema and rows of the form {f: [{v: …}]}, with each value "
        "as text.",
        source="BigQuery API v2, jobs.query",
    )
    def _response(self, columns: Mapping[str, str], rows: Iterable[Row]) -> Mapping[str, Any]:
        shown = [{"f": [{"v": value} for value in row]} for row in rows]
        job = {"projectId": self._cloud.project, "jobId": f"job_{next(self._jobs)}", "location": "US"}
        return {
            "kind": "bigquery#queryResponse",
            "schema": {"fields": [{"name": name, "type": kind, "mode": "NULLABLE"} for name, kind in columns.items()]},
            "jobReference": job,
            "totalRows": str(len(shown)),
            **({"rows": shown} if shown else {}),
            # nothing is scanned, so a query never exceeds maximumBytesBilled
            "totalBytesProcessed": "0",
            "jobComplete": True,
            "cacheHit": False,
        }


def _dollars(nanos: int) -> str:
    return repr(nanos / NANOS)


def _parameters(body: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the named parameters; raise if the query lacks one."""
    found = {
        str(each.get("name", "")): str((each.get("parameterValue") or {}).get("value", ""))
        for each in body.get("queryParameters", [])
        # the two queries use no other types
        if (each.get("parameterType") or {}).get("type") == "STRING"
    }
    for name in ("project", "since"):
        if name not in found:
            message = f"Query parameter '{name}' not found at [1:1]"
            raise _Refused(400, "INVALID_ARGUMENT", message, "invalidQuery")
    return found
