"""The export of Cloud Billing: names of tables, and what answers come to."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.errors import BadInput, CloudRefused, CloudUnavailable
from jupyter_tpu.money.billed import COSTS, CREDITS, ExportTable, Periods, billed_view

TABLE = ExportTable.parse("my-project.billing.gcp_billing_export_v1_0123AB_4567CD_89EF01")
PERIODS = Periods(month="2026-11-01", last_30_days="2026-10-24")


def costs(day: str = "2026-11-02", **fields: str | None) -> dict[str, str | None]:
    row = {"day": day, "service": "Compute Engine", "sku": "TpuV6e running in Columbus", "currency": "USD"}
    return {**row, "cost": "10.5", "credits": "-4", "exported": f"{day}T12:00:00Z", **fields}


def credit(day: str, name: str, amount: str) -> dict[str, str | None]:
    return {"day": day, "type": "PROMOTION", "name": name, "amount": amount}


def view(costs: list[Any], credits: list[Any]) -> dict[str, Any]:
    return billed_view(costs, credits, table=TABLE, project="my-project", periods=PERIODS)


@pytest.mark.parametrize("text", ["p.d.t", "my-project.b_1.t-2", "example.com:old.billing.costs", "  p.d.t\n"])
def test_a_table_has_a_project_a_dataset_and_a_name(text: str) -> None:
    table = ExportTable.parse(text)

    assert str(table) == text.strip()
    assert f"FROM `{text.strip()}`" in table.sql(COSTS)


@pytest.mark.parametrize(
    "text",
    [
        "costs",
        "billing.costs",
        "p.d.t; DROP TABLE x",
        "p.d.t` WHERE true --",
        "`p.d.t`",
        "p.d.t\nUNION ALL",
        "p..t",
        "p.d.",
        "P.d.t",
        "p.d-1.t",
        "p.d.t'",
        "p.d.tä",
        "p.d.{table}",
        "p.d." + "t" * 201,
    ],
)
def test_what_could_be_more_than_a_name_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a BigQuery table"):
        ExportTable.parse(text)


def test_without_a_table_it_is_said_how_to_name_one() -> None:
    with pytest.raises(BadInput) as refused:
        ExportTable.parse(" ")

    assert "JUPYTER_TPU_BILLING_EXPORT" in refused.value.hint


def test_only_the_table_is_put_into_a_query() -> None:
    for query in (COSTS, CREDITS):
        assert query.count("{") == query.count("}") == 1
        assert "@project" in query
        assert "@since" in query


def test_costs_and_credits_are_added_by_period() -> None:
    days = [costs("2026-10-23", cost="1000"), costs("2026-10-30", cost="1", credits="0"), costs(), costs("2026-11-20")]
    applied = [
        credit("2026-11-02", "Free Trial", "-3"),
        credit("2026-11-02", "TRC", "-1"),
        credit("2026-11-20", "Free Trial", "-4"),
    ]

    shown = view(days, applied)

    assert shown["month"] == {
        "since": "2026-11-01",
        "cost": 21.0,
        "credits": -8.0,
        "net": 13.0,
        "by_credit": [
            {"type": "PROMOTION", "name": "Free Trial", "amount": -7.0},
            {"type": "PROMOTION", "name": "TRC", "amount": -1.0},
        ],
    }
    assert shown["last_30_days"]["cost"] == 22.0
    assert shown["exported_until"] == "2026-11-20T12:00:00Z"
    assert (shown["currency"], len(shown["days"])) == ("USD", 4)


def test_an_export_without_costs_of_the_project_is_said_to_be_empty() -> None:
    with pytest.raises(CloudRefused, match="has no costs for project my-project since 2026-10-24"):
        view([], [])


def test_currencies_are_not_added() -> None:
    assert view([costs(currency="EUR")], [])["currency"] == "EUR"
    with pytest.raises(CloudRefused, match=r"contains several currencies \(EUR, USD\), so there is no total"):
        view([costs(), costs(currency="EUR")], [])


@pytest.mark.parametrize(
    "wrong", [{"cost": None}, {"cost": "much"}, {"cost": "NaN"}, {"day": None}, {"currency": ""}, {"exported": None}]
)
def test_an_answer_that_makes_no_sense_is_no_bill(wrong: dict[str, str | None]) -> None:
    with pytest.raises(CloudUnavailable):
        view([costs(**wrong)], [])
    with pytest.raises(CloudUnavailable):
        view([costs()], [{"day": "2026-11-02"}])
