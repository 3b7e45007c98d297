"""Read billed costs from the Cloud Billing export to BigQuery: the table name, the queries and their totals.

This module is pure. The export uses the schema of the standard usage cost data (cloud.google.com/billing, "Structure of
Standard data export"). Days and months are in UTC. Amounts are in the currency of the billing account; credits are
negative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import BadInput, CloudRefused, CloudUnavailable, Text

EXPORT_VARIABLE = "JUPYTER_TPU_BILLING_EXPORT"
"""The variable with the name of the BigQuery table that the billing export writes."""

JSON = dict[str, Any]
Rows = Sequence[Mapping[str, str | None]]
"""Rows of a BigQuery result: the text of each value by column name."""

EXPORT_LAG_NOTE = "The export lags: usage of the last 24 hours or more may be missing."
"""Cloud Billing guarantees no maximum delay; its documentation mentions hours to a day."""

# Allow only names that are safe between backticks in a query: a table name can't be a query parameter.
_PROJECT = re.compile(r"[a-z0-9.:-]{1,80}")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,200}")
_TABLE = re.compile(r"[A-Za-z0-9_-]{1,200}")
_EXAMPLE = "my-project.billing.gcp_billing_export_v1_0123AB_4567CD_89EF01"

_WHERE = "WHERE project.id = @project AND usage_start_time >= TIMESTAMP(@since)"

# The query groups by position: service and sku are also names of columns, so BigQuery would reject them as ambiguous.
COSTS = f"""\
SELECT FORMAT_TIMESTAMP('%F', usage_start_time) AS day, service.description AS service, sku.description AS sku,
  currency, SUM(cost) AS cost, SUM(IFNULL((SELECT SUM(credit.amount) FROM UNNEST(credits) AS credit), 0)) AS credits,
  FORMAT_TIMESTAMP('%FT%TZ', MAX(export_time)) AS exported
FROM `{{table}}`
{_WHERE}
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4"""

CREDITS = f"""\
SELECT FORMAT_TIMESTAMP('%F', usage_start_time) AS day, credit.type AS type, credit.name AS name,
  SUM(credit.amount) AS amount
FROM `{{table}}`, UNNEST(credits) AS credit
{_WHERE}
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTable:
    """A BigQuery table that Cloud Billing exports to."""

    project: str
    dataset: str
    table: str

    @classmethod
    def parse(cls, text: str) -> ExportTable:
        """Parse ``PROJECT.DATASET.TABLE``; reject every character that could terminate the name in a query.

        Raises:
            BadInput: the text is empty or has a different format.
        """
        if not text.strip():
            raise BadInput(
                "No billing export is configured.",
                hint=Text(
                    "Create an export in the Cloud console under Billing > Billing export. Then set its table with "
                    "`--billing-export`, `$JUPYTER_TPU_BILLING_EXPORT` or `TPUApp.billing_export`, for example "
                    "{example}.",
                    example=_EXAMPLE,
                ),
            )
        # split from the right, because old project IDs contain a dot ("example.com:my-project")
        parts = text.strip().replace("`", "'").rsplit(".", 2)
        forms = (_PROJECT, _DATASET, _TABLE)
        if len(parts) != len(forms) or not all(form.fullmatch(part) for form, part in zip(forms, parts, strict=True)):
            raise BadInput(
                Text("{value} is not a BigQuery table.", value=repr(text[:100])),
                hint=Text("Use PROJECT.DATASET.TABLE, for example {example}.", example=_EXAMPLE),
            )
        return cls(project=parts[0], dataset=parts[1], table=parts[2])

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.table}"

    def sql(self, query: str) -> str:
        """Return the query `COSTS` or `CREDITS` for this table. All other values are passed as query parameters."""
        return query.replace("{table}", str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """The first day of each period whose total is computed, as ``YYYY-MM-DD`` in UTC."""

    month: str
    last_30_days: str

    @property
    def since(self) -> str:
        """The first day for which costs are needed: the earlier of `month` and `last_30_days`."""
        return min(self.month, self.last_30_days)


def billed_view(costs: Rows, credits: Rows, *, table: ExportTable, project: str, periods: Periods) -> JSON:
    """Return the costs by day, service and SKU, the credits applied to these costs, and the totals of both.

    Args:
        costs: the result of `COSTS`.
        credits: the result of `CREDITS`.

    Raises:
        CloudRefused: the export has no costs of the project, or costs in several currencies.
        CloudUnavailable: the rows lack columns that the queries select.
    """
    try:
        days = [_day(row) for row in costs]
        applied = [_credit(row) for row in credits]
        exported = max((_text(row["exported"]) for row in costs), default="")
        currencies = sorted({_text(row["currency"]) for row in costs})
    except (KeyError, TypeError, ValueError) as error:
        raise CloudUnavailable(
            "BigQuery returned unexpected rows for the billing export.", hint="Try again in a minute.", raw=repr(error)
        ) from error
    # an empty result is not a bill of 0: a wrong table or the table of another billing account has no rows either
    if not days:
        raise CloudRefused(
            Text(
                "The billing export {table} has no costs for project {project} since {since}.",
                table=table,
                project=project,
                since=periods.since,
            ),
            hint="A new export contains its first costs after some hours, and earlier costs after up to five days."
            " Check that its billing account pays for this project.",
        )
    if len(currencies) > 1:
        raise CloudRefused(
            Text(
                "The billing export {table} contains several currencies ({currencies}), so there is no total.",
                table=table,
                currencies=", ".join(currencies)[:60],
            ),
            hint="See the costs in the Cloud console. Totals are shown again once all these days are in one currency.",
        )
    return {
        "table": str(table),
        "project": project,
        "currency": currencies[0],
        "exported_until": exported,
        "note": EXPORT_LAG_NOTE,
        "month": _period(days, applied, periods.month),
        "last_30_days": _period(days, applied, periods.last_30_days),
        "days": days,
    }


def _day(row: Mapping[str, str | None]) -> JSON:
    return {
        "day": _text(row["day"]),
        "service": row["service"] or "",
        "sku": row["sku"] or "",
        "cost": _amount(row["cost"]),
        "credits": _amount(row["credits"]),
    }


def _credit(row: Mapping[str, str | None]) -> JSON:
    return {
        "day": _text(row["day"]),
        "type": row["type"] or "",
        "name": row["name"] or "",
        "amount": _amount(row["amount"]),
    }


def _period(days: Iterable[JSON], applied: Iterable[JSON], since: str) -> JSON:
    """Return the costs of the days from `since` on. ``net`` is the amount due."""
    own = [row for row in days if row["day"] >= since]  # days in the form YYYY-MM-DD sort like their dates
    by_credit: dict[tuple[str, str], list[float]] = {}
    for row in applied:
        if row["day"] >= since:
            by_credit.setdefault((row["type"], row["name"]), []).append(row["amount"])
    cost, credits = math.fsum(row["cost"] for row in own), math.fsum(row["credits"] for row in own)
    return {
        "since": since,
        "cost": cost,
        "credits": credits,
        "net": cost + credits,
        "by_credit": [
            {"type": kind, "name": name, "amount": math.fsum(amounts)}
            for (kind, name), amounts in sorted(by_credit.items())
        ],
    }


def _text(value: str | None) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.100} is not text")
    return value


def _amount(value: str | None) -> float:
    # float() also reads "nan" and "inf", which would make every total useless and aren't valid JSON
    amount = float(_text(value))
    if not math.isfinite(amount):
        raise ValueError(f"{value!r:.100} is not an amount")
    return amount
