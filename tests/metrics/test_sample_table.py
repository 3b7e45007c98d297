"""A sample as a table: one row of `CORE_METRICS` is all that a value of a core needs."""

from __future__ import annotations

from dataclasses import fields

import pytest

from jupyter_tpu.metrics import CORE_METRICS, Chip, Core, Sample
from jupyter_tpu.sample_table import chips_table

GIB = 2**30


def test_every_value_of_a_core_has_its_row() -> None:
    assert [metric.name for metric in CORE_METRICS] == [
        each.name for each in fields(Core) if each.name not in ("core", "chip")
    ]


@pytest.mark.parametrize(
    ("known", "title", "text"),
    [
        ({"tensorcore_percent": 12.34}, "TensorCore", "12.3 %"),
        ({"hbm_used_bytes": 3 * GIB}, "HBM", "3.0 GiB"),
        ({"hbm_used_bytes": 3 * GIB, "hbm_total_bytes": 16 * GIB}, "HBM", "3.0 of 16.0 GiB"),
        ({"hbm_bandwidth_percent": 40.0}, "HBM bandwidth", "40.0 %"),
        ({"idle_s": 7260.0}, "idle", "2 h 1 min"),
        ({"queued": 2}, "queued", "2"),
    ],
)
def test_a_column_is_shown_where_any_core_has_its_value(known: dict[str, float], title: str, text: str) -> None:
    table = chips_table(Sample(at=0.0, cores=(Core(core=0, chip=0, **known), Core(core=1, chip=1))))  # type: ignore[arg-type]

    assert table.header[3:] == (title,)
    assert [row[3] for row in table.rows] == [text, "unknown"]


def test_chips_without_cores_have_their_duty_cycle() -> None:
    table = chips_table(Sample(at=0.0, chips=(Chip(chip=2, duty_percent=50.0),)))

    assert (table.header, table.rows) == (("chip", "duty cycle"), (("2", "50.0 %"),))
