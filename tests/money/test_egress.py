"""Buckets that a notebook names, and where they lie."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import BadInput
from jupyter_tpu.money.egress import MOST_BUCKETS, buckets_in, egress, gibibytes

ZONE = "us-central1-a"


@pytest.mark.parametrize(
    ("text", "buckets"),
    [
        ('ds = load("gs://my-bucket/data")', ("my-bucket",)),
        ("!gsutil cp gs://my-bucket .", ("my-bucket",)),
        ("See gs://my_bucket.example.com.", ("my_bucket.example.com",)),
        ("'gs://b01','gs://b02' gs://b01/x", ("b01", "b02")),
        ('f"gs://my-{name}/x" "gs://${BUCKET}/x" "gs://my-%s"', ()),
        ('"gs://My-Bucket"', ()),
        ("things://no-bucket gs:// gs://a/", ()),
        ("", ()),
    ],
)
def test_buckets_are_found_in_a_program(text: str, buckets: tuple[str, ...]) -> None:
    assert buckets_in(text) == buckets


def test_of_a_notebook_only_the_sources_count() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["Data: gs://from-", "markdown\n"]},
        {"cell_type": "code", "source": 'open("gs://from-code")', "outputs": [{"text": "gs://from-output"}]},
    ]
    assert buckets_in(json.dumps({"cells": cells, "metadata": {}})) == ("from-markdown", "from-code")


@given(st.text() | st.recursive(st.none() | st.text(), lambda x: st.dictionaries(st.just("cells"), x)).map(json.dumps))
def test_no_text_is_too_wild(text: str) -> None:
    assert isinstance(buckets_in(text), tuple)


def test_many_buckets_are_not_all_asked_for() -> None:
    assert len(buckets_in(" ".join(f"gs://bucket-{number}" for number in range(1000)))) == MOST_BUCKETS


@pytest.mark.parametrize("piece", ["gs://a", "gs://", "gs://a.", "[" * 50])
def test_a_text_of_a_million_repetitions_ends(piece: str) -> None:
    assert len(buckets_in(piece * 1_000_000)) <= MOST_BUCKETS


@pytest.mark.parametrize(
    ("location", "verdict", "text"),
    [
        ("US-CENTRAL1", "same", "gs://mine is also in us-central1"),
        (
            "EUROPE-WEST4",
            "elsewhere",
            "gs://mine is in europe-west4, and the node is in us-central1: egress between regions",
        ),
        ("US-CENTRAL2", "elsewhere", "even under a grant: $0.02 per GiB (list price of 2025)."),
        ("AUSTRALIA-SOUTHEAST1", "elsewhere", "even under a grant; no list price is known for it."),
        (
            "US",
            "spread",
            "gs://mine is stored in several regions (US), and the node is in us-central1: egress may be billed",
        ),
        ("EU", "spread", "even under a grant: at most $0.05 per GiB (list price of 2025)."),
        ("NAM4", "spread", "gs://mine is stored in several regions (NAM4)"),
        ("", "unknown", "The location of gs://mine is unknown: nobody answers."),
        ("\x1b]52;c;eA==", "unknown", "The location of gs://mine is unknown"),
    ],
)
def test_where_it_lies_is_judged(location: str, verdict: str, text: str) -> None:
    found = egress("mine", location, ZONE, why_unknown="nobody answers.")
    assert found.verdict == verdict
    assert text in found.text
    assert found.is_warning == (verdict in ("elsewhere", "spread"))


@pytest.mark.parametrize(
    ("location", "zone", "usd"),
    [
        ("US-CENTRAL1", ZONE, 0.0),
        ("US-EAST1", ZONE, 0.02),
        ("NORTHAMERICA-NORTHEAST1", ZONE, 0.02),
        ("NAM4", ZONE, 0.02),
        ("EUROPE-WEST4", "europe-west1-b", 0.02),
        ("ASIA-EAST1", "asia-southeast1-b", 0.08),
        ("EUROPE-WEST4", ZONE, 0.05),
        ("US-EAST5", "europe-west4-a", 0.05),
        ("ASIA-NORTHEAST1", ZONE, 0.08),
        ("EU", "asia-east1-c", 0.08),
        ("ASIA-SOUTHEAST2", ZONE, None),
        ("SOUTHAMERICA-EAST1", ZONE, None),
        ("AUSTRALIA-SOUTHEAST1", "southamerica-east1-c", None),
        ("MARS-NORTH1", ZONE, None),
    ],
)
def test_a_gib_costs_what_the_list_says_for_both_ends(location: str, zone: str, usd: float | None) -> None:
    found = egress("mine", location, zone)
    assert found.usd_per_gib == usd
    assert (found.to_json()["price_as_of"] is None) == (usd is None)


def test_an_epoch_of_a_known_size_is_priced() -> None:
    found = egress("mine", "EUROPE-WEST4", ZONE, epoch_gib=1500)
    assert found.usd_per_epoch == pytest.approx(75)
    assert "$0.05 per GiB, $75.00 per epoch of 1,500 GiB" in found.text
    assert egress("mine", "", ZONE, epoch_gib=1500).usd_per_epoch is None
    assert egress("mine", "US-CENTRAL1", ZONE, epoch_gib=1500).usd_per_epoch == 0.0


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "nan", "inf", "1e300"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not an amount in GiB"):
        gibibytes(text)
