"""What Google has billed, by its export to BigQuery: which table, which questions, and what the answers come to.

Pure. The export's schema is that of the standard usage cost data (cloud.google.com/billing, "Structure of Standard data
export"). Days and months are those of UTC. Amounts are in the currency of the billing account; credits are negative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.errors import BadInput, CloudRefused, CloudUnavailable

JSON = dict[str, Any]
Answer = Sequence[Mapping[str, str | None]]
"""Rows of BigQuery: each value by its column's name, as text."""

LATE = "The export lags: what was used in the last 24 hours, or somewhat longer ago, may be missing."

_PROJECT = re.compile(r"[a-z0-9.:-]{1,80}")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,200}")
_TABLE = re.compile(r"[A-Za-z0-9_-]{1,200}")
_EXAMPLE = "my-project.billing.gcp_billing_export_v1_0123AB_4567CD_89EF01"

_WHERE = "WHERE project.id = @project AND usage_start_time >= TIMESTAMP(@since)"

# grouped by position: service and sku are names of columns, too, which would be ambiguous
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
    """A table that Cloud Billing exports to."""

    project: str
    dataset: str
    table: str

    @classmethod
    def parse(cls, text: str) -> ExportTable:
        """From ``PROJECT.DATASET.TABLE``, with nothing in it that could end the name in a query.

        Raises:
            BadInput: it is none, or empty.
        """
        if not text.strip():
            raise BadInput(
                "No billing export is configured.",
                hint="Name its table with --billing-export, in JUPYTER_TPU_BILLING_EXPORT or in TPUApp.billing_export, "
                f"such as {_EXAMPLE}. Exports are made in the Cloud console under Billing, Billing export.",
            )
        parts = text.strip().replace("`", "'").rsplit(".", 2)
        forms = (_PROJECT, _DATASET, _TABLE)
        if len(parts) != len(forms) or not all(form.fullmatch(part) for form, part in zip(forms, parts, strict=True)):
            raise BadInput(
                f"{text[:100]!r} is no table of BigQuery.",
                hint=f"Name it as PROJECT.DATASET.TABLE, such as {_EXAMPLE}.",
            )
        return cls(project=parts[0], dataset=parts[1], table=parts[2])

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.table}"

    def asked(self, query: str) -> str:
        """`COSTS` or `CREDITS` of this table; all that varies besides are its parameters."""
        return query.replace("{table}", str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """The days from which the totals count, as ``YYYY-MM-DD``."""

    month: str
    last_30_days: str

    @property
    def since(self) -> str:
        return min(self.month, self.last_30_days)


def billed_view(costs: Answer, credits: Answer, *, table: ExportTable, project: str, periods: Periods) -> JSON:
    """Costs by day, service and SKU, the credits that were applied, and what both come to.

    Raises:
        CloudRefused: the export has nothing of the project, or costs in several currencies.
        CloudUnavailable: the answers are not those to the questions.
    """
    try:
        days = [_day(row) for row in costs]
        applied = [_credit(row) for row in credits]
        exported = max((_text(row["exported"]) for row in costs), default="")
        currencies = sorted({_text(row["currency"]) for row in costs})
    except (KeyError, TypeError, ValueError) as error:
        raise CloudUnavailable(
            "BigQuery's answer about the billing export cannot be read.", hint="Try again in a minute.", raw=repr(error)
        ) from error
    if not days:
        raise CloudRefused(
            f"The billing export {table} has no costs of project {project} since {periods.since}.",
            hint="A new export takes hours until it has any, up to five days for those of earlier days. Check that its "
            "billing account pays for this project.",
        )
    if len(currencies) > 1:
        raise CloudRefused(
            f"The billing export {table} has costs in several currencies, which cannot be added: "
            f"{', '.join(currencies)[:60]}.",
            hint="Look at it in the Cloud console; from the next month on there may be one only.",
        )
    return {
        "table": str(table),
        "project": project,
        "currency": currencies[0],
        "exported_until": exported,
        "note": LATE,
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
    """What was billed from a day on; `net` is what is left to pay."""
    own = [row for row in days if row["day"] >= since]
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
        raise ValueError(f"{value!r:.100} is no text")
    return value


def _amount(value: str | None) -> float:
    amount = float(_text(value))
    if not math.isfinite(amount):
        raise ValueError(f"{value!r:.100} is no amount")
    return amount
