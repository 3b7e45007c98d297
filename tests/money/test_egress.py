"""Buckets that a notebook names, and where they lie."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.money.egress import MOST_BUCKETS, buckets_in, egress

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
        ("US-CENTRAL1", "same", "gs://mine lies in us-central1 too"),
        (
            "EUROPE-WEST4",
            "elsewhere",
            "gs://mine lies in europe-west4, the node in us-central1: egress between regions",
        ),
        ("US-CENTRAL2", "elsewhere", "egress between regions is billed per GiB read, also under a grant"),
        ("US", "spread", "gs://mine is spread over US, the node lies in us-central1: egress may be billed"),
        ("NAM4", "spread", "gs://mine is spread over NAM4"),
        ("", "unknown", "Where gs://mine lies is not known: nobody answers."),
        ("\x1b]52;c;eA==", "unknown", "Where gs://mine lies is not known"),
    ],
)
def test_where_it_lies_is_judged(location: str, verdict: str, text: str) -> None:
    found = egress("mine", location, ZONE, why_unknown="nobody answers.")
    assert found.verdict == verdict
    assert text in found.text
    assert found.is_warning == (verdict in ("elsewhere", "spread"))
    assert "$" not in found.text  # no price is known from a source that could be named
