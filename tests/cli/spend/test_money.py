"""`jupyter tpu cost` and `jupyter tpu budget`, as typed in a terminal."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from terminal import Terminal

HERE = ("--zone", "us-central1-a")
V5E = ("--type", "v5litepod-8", *HERE)
EXPORT = "demo-project.billing.gcp_billing_export_v1_01E5D0_7B0000_00DE30"
UNPRICED = ("--type", "v6e-1", "--zone", "southamerica-west1-a", "--spot")


def test_what_a_node_costs_is_shown_while_it_lives_and_after(terminal: Terminal) -> None:
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    spent = terminal.tpu_json("cost")
    (node,) = spent["nodes"]
    assert (node["node_id"], node["usd_per_hour"], node["is_open"]) == ("my-node", 9.6, True)
    assert (spent["currency"], spent["usd_per_hour"], spent["unpriced"]) == ("USD", 9.6, [])
    assert (spent["emulated"], spent["is_complete"]) == (True, True)
    assert node["usd"] == pytest.approx(node["ready_s"] * 9.6 / 3600)

    assert terminal.tpu_json("describe", "my-node")["cost_usd"] >= node["usd"]
    header, row = terminal.tpu("list").stdout.splitlines()
    assert row[header.index("COST") :].startswith("$")

    terminal.tpu("delete", "my-node", *HERE, "--yes")
    spent = terminal.tpu_json("cost")
    assert [each["is_open"] for each in spent["nodes"]] == [False]
    assert spent["usd_per_hour"] == 0
    assert spent["total"]["usd"] >= node["usd"]


@pytest.mark.nightly
def test_a_look_at_some_nodes_leaves_what_the_others_cost(terminal: Terminal) -> None:
    def kept() -> list[tuple[float, float, bool]]:
        other = "SELECT began_at, ended_at, is_open FROM spans WHERE node_name LIKE '%/other' ORDER BY began_at"
        with sqlite3.connect(terminal.home / "tpu" / "journal.db") as database:
            return database.execute(other).fetchall()

    there = ("--zone", "europe-west4-b")
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    assert terminal.tpu("create", "other", "--type", "v5litepod-8", *there).returncode == 0
    assert terminal.tpu("cost").returncode == 0
    before = kept()
    assert [is_open for *_, is_open in before] == [True]
    assert terminal.tpu("describe", "my-node", *HERE).returncode == 0
    assert kept() == before
    assert terminal.tpu("list", *HERE).returncode == 0
    assert kept() == before
    terminal.tpu("delete", "my-node", *HERE, "--yes")
    terminal.tpu("delete", "other", *there, "--yes")


def test_prices_of_today_are_shown_with_their_day_and_are_what_the_cloud_charges(terminal: Terminal) -> None:
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    assert terminal.tpu_json("cost")["nodes"][-1]["price_source"].startswith("list ")

    there = {"JUPYTER_TPU_EMULATOR": terminal.rest}
    node = terminal.tpu_json("cost", "--refresh-prices", **there)["nodes"][-1]
    assert re.fullmatch(r"catalog 20\d\d-\d\d-\d\d", node["price_source"])
    charged = terminal.cloud.ledger()["nodes"][-1]
    assert (charged["billing"], node["usd_per_hour"]) == (True, charged["usd_per_hour"])
    assert node["price_source"] in terminal.tpu("cost", **there).stdout  # of the day, without being read again
    assert terminal.tpu_json("describe", "my-node", **there)["price"]["source"] == "Cloud Billing Catalog"

    nowhere = terminal.tpu("cost", "--refresh-prices", JUPYTER_TPU_EMULATOR="http://127.0.0.1:9")
    assert nowhere.returncode == 0
    assert "The Cloud Billing API is not responding." in nowhere.stderr
    terminal.tpu("delete", "my-node", *HERE, "--yes")


def test_what_was_billed_is_shown_by_the_configured_export(terminal: Terminal) -> None:
    there = {"JUPYTER_TPU_EMULATOR": terminal.rest, "JUPYTER_TPU_BILLING_EXPORT": EXPORT}
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    terminal.tpu("delete", "my-node", *HERE, "--yes")

    billed = terminal.tpu_json("cost", "--billed", **there)
    assert billed["last_30_days"]["cost"] == pytest.approx(terminal.cloud.ledger()["total_usd"], abs=1e-9)
    assert billed["emulated"] is True
    said = terminal.tpu("cost", "--billed", **there)
    assert "TpuV5e running in Americas" in said.stdout
    assert "USD to pay" in said.stdout
    assert "The export lags" in said.stderr

    unconfigured = terminal.tpu("cost", "--billed")
    assert unconfigured.returncode == 1
    assert "--billing-export" in unconfigured.stderr
    injected = terminal.tpu("cost", "--billed", "--billing-export", "p.d.t` --", **there)
    assert injected.returncode == 1
    assert "is not a BigQuery table" in injected.stderr


def test_a_budget_is_set_shown_and_removed(terminal: Terminal) -> None:
    week = ("--per", "week", "--resets-on", "friday", "--resets-at", "09:00", "--warn-only")
    made = terminal.tpu_json("budget", "set", "weekly", "--hours", "1000", *week)
    assert (made["amount"], made["unit"], made["period"]) == (1000, "hours", "week")
    assert (made["resets_on"], made["resets_at"], made["action"]) == ("friday", "09:00", "warn")
    assert made["window_start"] < made["window_end"]
    said = terminal.tpu("cost")
    assert "1000.00 h per week" in said.stdout
    assert "only warns" in said.stdout
    assert "the cloud is emulated" in said.stderr
    assert terminal.tpu_json("budget", "remove", "weekly") == {"removed": "weekly"}
    assert terminal.tpu_json("budget")["budgets"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "mine", "--usd", "-5", "--per", "day"), "-5.0 is not an amount for a budget"),
        (("set", "mine"), "A budget requires a limit and a period"),
        (("set", "mine", "--per", "day"), "A budget requires a limit: --usd or --hours."),
        (("set", "mine", "--usd", "5"), "`jupyter tpu budget set mine --usd 5 --per week`"),
        (("set", "mine", "--per", "day"), "`jupyter tpu budget set mine --usd 20 --per day`"),
        (("set", "x", "10"), "`budget set` does not take '10'."),
        (("set", "x", "10"), "`jupyter tpu budget set x --usd 10 --per week`"),
        (("remove", "mine", "now"), "`budget remove` does not take 'now'."),
        (("remove", "mine"), "There is no budget named 'mine'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(terminal: Terminal, arguments: tuple[str, ...], words: str) -> None:
    refused = terminal.tpu("budget", *arguments)
    assert refused.returncode == 1
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_nothing_is_created_under_a_budget_that_is_used_up_damaged_or_of_unknown_price(terminal: Terminal) -> None:
    terminal.tpu("budget", "set", "mine", "--usd", "1000", "--per", "day")
    unknown = terminal.tpu("create", "my-node", *UNPRICED, "--yes")
    assert unknown.returncode == 1
    assert "--accept-unknown-price" in unknown.stderr

    with sqlite3.connect(terminal.home / "tpu" / "journal.db") as database:
        database.execute("UPDATE documents SET body = '{' WHERE kind = 'budget'")
    damaged = terminal.tpu("create", "my-node", *V5E)
    assert damaged.returncode == 1
    assert "The budget 'mine' in the journal is damaged" in damaged.stderr
    (shown,) = terminal.tpu_json("budget")["budgets"]
    assert (shown["name"], shown["amount"], shown["level"]) == ("mine", None, "100")
    assert "The budget 'mine' in the journal is damaged" in shown["error"]

    terminal.tpu("budget", "set", "mine", "--usd", "1000", "--per", "day")
    accepted = terminal.tpu("create", "my-node", *UNPRICED, "--accept-unknown-price")
    assert accepted.returncode == 0, accepted.stderr
    assert "No list price is known for v6e-1" in terminal.tpu("cost").stderr

    terminal.tpu("budget", "set", "mine", "--hours", "0.000001", "--per", "total")
    used_up = terminal.tpu("create", "another", *V5E)
    assert used_up.returncode == 1
    assert "The budget mine is used up" in used_up.stderr
    sought = terminal.tpu("search", "another", "--types", "v5litepod-8", "--zones", "us-central1-a")
    assert sought.returncode == 1
    assert sought.stderr.count("The budget mine is used up: 0.00 hours") == 1, sought.stderr
    terminal.tpu("delete", "my-node", "--zone", "southamerica-west1-a", "--yes")
    terminal.tpu("budget", "remove", "mine")
    assert terminal.cloud.billing() == []


@pytest.mark.nightly
def test_costs_are_counted_by_the_clouds_clock_where_that_of_this_computer_was_set(terminal: Terminal) -> None:
    def ledger(statement: str) -> Any:
        with sqlite3.connect(terminal.home / "tpu" / "journal.db") as database:
            return database.execute(statement).fetchone()

    def cost_where(ahead_s: int, way: str, *, before_s: int = 0) -> Any:
        """What `cost` says where this computer's clock is `ahead_s` ahead; the ledger is moved to the cloud's time."""
        change = before_s - ahead_s
        ledger(f"UPDATE spans SET began_at = began_at + {change}, ended_at = ended_at + {change}")
        terminal.cloud.clear_faults()
        terminal.cloud.add_fault("*", "clock_skew", seconds=-ahead_s)
        said = terminal.tpu("cost", "--json")
        assert said.stderr.count(f"This computer's clock is 1 h {way}.") == 1
        return json.loads(said.stdout)

    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    terminal.tpu("budget", "set", "mine", "--usd", "5", "--per", "total")
    (at_first,) = ledger("SELECT SUM(ended_at - began_at) FROM spans")
    try:
        behind = cost_where(-3600, "behind")
        ahead = cost_where(3600, "ahead", before_s=-3600)
        # the cloud's clock is known to within the time that its answer travels
        assert at_first - 1 < behind["total"]["ready_s"] < ahead["total"]["ready_s"] + 1 < 1800
        assert ahead["budgets"][0]["level"] == "ok"
        assert "This computer's clock is 1 h ahead." in terminal.tpu("doctor").stdout
    finally:
        terminal.cloud.clear_faults()
    assert "This computer's clock is" not in terminal.tpu("list").stderr
    terminal.tpu("delete", "my-node", *HERE, "--yes")


@pytest.mark.nightly
def test_a_single_answer_with_a_wrong_date_charges_nothing(terminal: Terminal) -> None:
    terminal.tpu("budget", "remove", "mine")
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    before = terminal.tpu_json("cost")["total"]["ready_s"]
    terminal.cloud.add_fault("ListNodes", "clock_skew", seconds=93_600, times=1)
    try:
        assert "This computer's clock is" not in terminal.tpu("list").stderr
        assert terminal.tpu_json("cost")["total"]["ready_s"] - before < 1800
    finally:
        terminal.cloud.clear_faults()
        terminal.tpu("delete", "my-node", *HERE, "--yes")


@pytest.mark.nightly
def test_a_grant_is_removed_by_the_clouds_clock(terminal: Terminal) -> None:
    """By this computer's the node that the grant pays for would have been READY for an hour more, over the budget."""
    day_before = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))
    row = ("--row", "8 on-demand v5e us-central1-a")
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    assert terminal.tpu("grant", "add", "trc", *row, "--starts-on", day_before, "--days", "90").returncode == 0
    terminal.tpu("budget", "set", "mine", "--usd", "5", "--per", "total")
    with sqlite3.connect(terminal.home / "tpu" / "journal.db") as database:
        database.execute("DELETE FROM spans WHERE is_open = 0")  # what other tests have spent
        database.execute("UPDATE spans SET began_at = began_at - 3600, ended_at = ended_at - 3600")
    terminal.cloud.add_fault("*", "clock_skew", seconds=-3600)
    try:
        removed = terminal.tpu("grant", "remove", "trc")
        assert removed.returncode == 0, removed.stderr
    finally:
        terminal.cloud.clear_faults()
        terminal.tpu("delete", "my-node", *HERE, "--yes")
        terminal.tpu("budget", "remove", "mine")


@pytest.mark.nightly
def test_a_node_in_a_state_that_nobody_knows_is_counted_as_billed(terminal: Terminal) -> None:
    assert terminal.tpu("create", "my-node", *V5E).returncode == 0
    terminal.cloud.add_fault("ListNodes", "unknown_enum", times=None)
    try:
        listed = terminal.tpu("list")
        assert "UNKNOWN(99)" in listed.stdout
        assert "1 in unknown state (may be billed): $9.60/h at list price." in listed.stderr
        before = terminal.tpu_json("cost")["total"]["ready_s"]
        assert terminal.tpu_json("cost")["total"]["ready_s"] > before
    finally:
        terminal.cloud.clear_faults()
        terminal.tpu("delete", "my-node", *HERE, "--yes")


def test_a_budget_that_is_used_up_says_who_stops_what_is_ready(terminal: Terminal) -> None:
    assert terminal.tpu("create", "one", *V5E).returncode == 0
    assert terminal.tpu("create", "two", *V5E, "--spot").returncode == 0
    terminal.tpu("budget", "set", "mine", "--usd", "1000", "--per", "total")
    assert "used up" not in terminal.tpu("budget").stderr

    for said in (
        terminal.tpu("budget", "set", "mine", "--usd", "0.000001", "--per", "total"),
        terminal.tpu("budget"),
        terminal.tpu("cost"),
    ):
        assert (
            "The budget mine is used up, and these nodes are still READY and billed. A running Jupyter "
            "server stops them. If none is running, stop them now:\n"
            "  jupyter tpu stop one --zone us-central1-a\n"
            "  jupyter tpu delete two --zone us-central1-a\n"
        ) in said.stderr
    assert "stops billed nodes, and deletes those that cannot be stopped" in terminal.tpu("budget").stdout
    assert "FIRST READY" in terminal.tpu("cost").stdout
    assert len(terminal.cloud.billing()) == 2

    assert terminal.tpu("stop", "--all", "--yes").returncode == 0
    assert terminal.cloud.billing() == []
    assert "used up, and" not in terminal.tpu("budget").stderr
    terminal.tpu("delete", "one", *HERE, "--yes")
    terminal.tpu("budget", "remove", "mine")
