"""The routes of grants, of what they cover and of the audit log, on a real Jupyter server."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
from rest_api import assert_fits

if TYPE_CHECKING:
    from conftest import Server

TODAY = time.strftime("%Y-%m-%d", time.gmtime())  # or yesterday, when the test runs: a suite takes a while
ROW = {"chips": 64, "generation": "v5e", "spot": True, "zone": "us-central1-a"}
TRC = {"kind": "trc", "starts_on": TODAY, "days": 90, "rows": [ROW]}
COVERAGE = "coverage?zone=us-central1-a&accelerator_type=v5litepod-8"


def test_a_grant_is_read_entered_and_removed(server: Server) -> None:
    text = (
        "64 spot Cloud TPU v5e chips in zone us-central1-a\nsome spot TPU v6e chips in zone x\nThis free 90-day trial"
    )
    mail = server.tpu("POST", "grants/parse", {"text": text}).json
    assert_fits(mail, "GrantMail")
    assert (mail["rows"], mail["days"], len(mail["problems"])) == ([{**ROW, "device": None}], 90, 1)
    assert server.tpu("GET", "grants").json == {"grants": []}

    entered = server.tpu("PUT", "grants/trc", {**TRC, "rows": mail["rows"]})
    assert entered.status == 200, entered.text
    assert_fits(entered.json, "Grant")
    assert entered.json["days_left"] in (89, 90)
    assert entered.json["rows"][0]["free"] == 64
    listed = server.tpu("GET", "grants").json
    assert_fits(listed, "Grants")
    assert listed["grants"] == [entered.json]

    covered = server.tpu("GET", f"{COVERAGE}&spot=true").json
    assert_fits(covered, "Coverage")
    assert (covered["covered"], covered["grant"]) == (True, "trc")
    billed = server.tpu("GET", COVERAGE).json
    assert_fits(billed, "Coverage")
    assert billed["text"] == "billed: $9.60/h (your TRC grant trc covers v5e there only as spot)"

    offered = {each["accelerator_type"]: each for each in server.tpu("GET", "offers").json["zones"]["us-central1-a"]}
    assert offered["v5litepod-8"]["covered"] == ["spot", "preemptible"]
    assert offered["v5litepod-128"]["covered"] == []  # more chips than the grant has

    assert server.tpu("DELETE", "grants/trc").status == 204
    assert server.tpu("DELETE", "grants/trc").status == 400
    assert server.tpu("GET", f"{COVERAGE}&spot=true").json["text"] == "billed: $4.80/h"

    log = server.tpu("GET", "audit?limit=2").json
    assert_fits(log, "Audit")
    assert [(entry["action"], entry["subject"]) for entry in log["entries"]] == [("grant", "trc"), ("grant", "trc")]
    assert "removed" in log["entries"][0]["reason"]


@pytest.mark.parametrize(
    ("verb", "route", "body"),
    [
        ("POST", "grants/parse", {}),
        ("POST", "grants/parse", {"text": 5}),
        ("POST", "grants/parse", ["text"]),
        ("PUT", "grants/trc", {**TRC, "days": -1}),
        ("PUT", "grants/trc", {**TRC, "rows": [{**ROW, "generation": "<img src=x>"}]}),
        ("PUT", "grants/trc", {"kind": "credit", "starts_on": TODAY, "days": 90, "usd": -1}),
        ("PUT", "grants/a%20b", TRC),
        ("PUT", "grants/a%2Fb", TRC),
        ("GET", "coverage", None),
        ("GET", f"{COVERAGE}&spot=maybe", None),
        ("GET", f"coverage?zone={'x' * 200}&accelerator_type=v5litepod-8", None),
        ("GET", "coverage?zone=%1b&accelerator_type=v5litepod-8", None),
        ("GET", "audit?limit=0", None),
        ("GET", "audit?limit=1001", None),
        ("GET", "audit?limit=%D9%A3", None),
    ],
)
def test_bad_input_is_refused_in_words(server: Server, verb: str, route: str, body: Any) -> None:
    refused = server.tpu(verb, route, body)
    assert refused.status == 400
    assert refused.json["error"]["code"] == "bad_input"
    assert server.tpu("GET", "grants").json == {"grants": []}


def test_a_grant_that_makes_no_sense_any_more_is_shown_with_the_reason(server: Server) -> None:
    assert server.tpu("PUT", "grants/mine", TRC).status == 200
    with sqlite3.connect(server.folder / "tpu" / "journal.db") as database:
        database.execute("""UPDATE documents SET body = '{"kind": "gift"}' WHERE kind = 'grant'""")
    database.close()
    listed = server.tpu("GET", "grants").json
    assert_fits(listed, "Grants")
    assert "'gift' is not a kind of grant" in listed["grants"][0]["error"]
    assert not server.tpu("GET", f"{COVERAGE}&spot=true").json["covered"]
    assert server.tpu("DELETE", "grants/mine").status == 204


def test_a_type_that_nobody_knows_is_billed_at_an_unknown_price(server: Server) -> None:
    unknown = server.tpu("GET", "coverage?zone=us-central1-a&accelerator_type=v99-1&spot=true").json
    assert unknown["usd_per_hour"] is None
    assert unknown["text"].startswith("billed: price unknown")


def test_it_is_known_before_the_creation_how_a_node_stops_by_itself(server: Server) -> None:
    assert server.tpu("GET", COVERAGE).json["autostop"] == {
        **{"action": "stop", "idle_after_s": 3600.0},
        "idle_at_most_s": 7200.0,
    }
    assert server.tpu("GET", f"{COVERAGE}&spot=true").json["autostop"] == {
        **{"action": "delete", "idle_after_s": 14400.0},
        "idle_at_most_s": 14400.0,
    }


def test_coverage_is_asked_for_all_terms(server: Server) -> None:
    preemptible = server.tpu("GET", f"{COVERAGE}&provisioning=preemptible").json
    assert preemptible["text"] == server.tpu("GET", f"{COVERAGE}&spot=true").json["text"] == "billed: $4.80/h"
    reserved = server.tpu("GET", f"{COVERAGE}&provisioning=reserved").json
    assert (reserved["usd_per_hour"], "with your reservation" in reserved["text"]) == (None, True)
    assert server.tpu("GET", f"{COVERAGE}&provisioning=reserved&spot=true").status == 400


def test_the_buckets_of_a_notebook_are_named(server: Server) -> None:
    cell = {"cell_type": "code", "id": "a", "source": "load('gs://my-bucket/x')", "metadata": {}, "outputs": []}
    notebook = {"cells": [{**cell, "execution_count": None}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (server.folder / "train.ipynb").write_text(json.dumps(notebook))
    told = server.tpu("GET", "egress?zone=us-central1-a&path=train.ipynb")
    assert told.status == 200, told.text
    assert_fits(told.json, "Egress")
    (bucket,) = told.json["buckets"]
    assert (bucket["bucket"], bucket["location"], bucket["verdict"]) == ("my-bucket", None, "unknown")
    assert server.tpu("GET", "egress?zone=us-central1-a&path=").json == {"buckets": []}
    assert server.tpu("GET", "egress?zone=us-central1-a&path=no-such-file").status == 404
    assert server.tpu("GET", "egress?zone=nowhere&path=train.ipynb").status == 400
