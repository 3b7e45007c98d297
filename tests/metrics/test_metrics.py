"""Samples: what of libtpu's numbers is believed, how an hour of them is kept, and how they travel."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.agent.metrics.history import SampleHistory, thinned
from jupyter_tpu.agent.metrics.validate import (
    DUTY_CYCLE,
    HBM_TOTAL,
    HBM_USED,
    TENSORCORE,
    RawMetrics,
    validated,
)
from jupyter_tpu.cli.on_node.top import screen
from jupyter_tpu.metrics import Chip, Core, Holder, Host, Sample
from jupyter_tpu.notebook.magics.chips import chips_section

GIB = 2**30
IDLE_TIME = "tpu.runtime.tensorcore.idle_duration.seconds"
QUEUE_SIZE = "hlo.queue.size.gauge"
VIEW = {"as_of": 1.0, "accelerator_type": "v5litepod-8"}
WORKER = {"worker_id": 0, "hostname": "t1v", "as_of": 1.0, "error": None}


def test_two_cores_share_the_duty_of_their_chip() -> None:
    values = {HBM_USED: [(8, 1), (9, 2), (10, 3), (11, 4)], DUTY_CYCLE: [(4, 10.0), (5, 20.0)]}
    found = validated(RawMetrics(values=values), cores_per_chip=2, expected_cores=4)

    assert found.duty_per == "chip"
    assert found.chips == (Chip(chip=4, duty_percent=10.0), Chip(chip=5, duty_percent=20.0))
    assert [(core.core, core.chip, core.hbm_used_bytes) for core in found.cores] == [
        (8, 4, 1),
        (9, 4, 2),
        (10, 5, 3),
        (11, 5, 4),
    ]


@pytest.mark.parametrize(
    ("metric", "pairs", "field", "reason"),
    [
        (HBM_USED, [(0, math.nan), (1, 5)], "hbm_used_bytes", "nan, which is impossible"),
        (HBM_USED, [(0, -1), (1, 5)], "hbm_used_bytes", "-1, which is impossible"),
        (HBM_USED, [(0, 17 * GIB), (1, 5)], "hbm_used_bytes", "more memory in use than core 0 has"),
        (HBM_USED, [(1, 5)], "hbm_used_bytes", "leaves out 0"),
        (HBM_USED, [(0, 1), (0, 2), (1, 5)], "hbm_used_bytes", "libtpu reports core 0 more than once"),
        (TENSORCORE, [(0, 100.1), (1, 5)], "tensorcore_percent", "100.1, which is impossible"),
        (QUEUE_SIZE, [(0, math.inf), (1, 5)], "queued", "inf, which is impossible"),
        (QUEUE_SIZE, [(0, 2**62), (1, 5)], "queued", "4.61169e+18, which is impossible"),
        (IDLE_TIME, [(0, 1e300), (1, 5)], "idle_s", "1e+300, which is impossible"),
        (HBM_USED, [(0, 2**62), (1, 5)], "hbm_used_bytes", "4.61169e+18, which is impossible"),
    ],
)
def test_a_number_that_cannot_be_is_unknown_with_the_reason(
    metric: str, pairs: list[tuple[int, float]], field: str, reason: str
) -> None:
    told = RawMetrics(values={HBM_TOTAL: [(0, 16 * GIB), (1, 16 * GIB)], metric: pairs})
    found = validated(told, cores_per_chip=1, expected_cores=2)

    assert [getattr(core, field) for core in found.cores] == [None, 5]
    assert reason in found.unknown[field]


@pytest.mark.parametrize("total", [0, -1, 2**62, math.inf])
def test_a_size_that_no_memory_has_is_unknown_and_what_is_used_of_it_is_not(total: float) -> None:
    told = RawMetrics(values={HBM_TOTAL: [(0, total)], HBM_USED: [(0, 5)]})
    found = validated(told, cores_per_chip=1, expected_cores=1)

    assert [(core.hbm_used_bytes, core.hbm_total_bytes) for core in found.cores] == [(5, None)]
    assert "which is impossible" in found.unknown["hbm_total_bytes"]


def test_minus_zero_is_zero() -> None:
    told = RawMetrics(values={DUTY_CYCLE: [(0, -0.0)], IDLE_TIME: [(0, -0.0)], TENSORCORE: [(0, -0.0)]})
    found = validated(told, cores_per_chip=1, expected_cores=1)

    (chip,), (core,) = found.chips, found.cores
    assert [str(value) for value in (chip.duty_percent, core.idle_s, core.tensorcore_percent)] == ["0.0"] * 3


@pytest.mark.parametrize("duty", [math.nan, -1.0, 100.5, math.inf])
def test_a_duty_that_cannot_be_is_unknown(duty: float) -> None:
    found = validated(RawMetrics(values={DUTY_CYCLE: [(0, duty)]}), cores_per_chip=1, expected_cores=None)

    assert found.chips == (Chip(chip=0, duty_percent=None),)
    assert "is impossible" in found.unknown["duty_percent"]


def test_missing_cores_are_said_to_be_missing() -> None:
    found = validated(RawMetrics(values={HBM_USED: [(0, 1)] * 1}), cores_per_chip=1, expected_cores=8)

    assert found.unknown["cores"] == "libtpu reports 1 cores, this worker has 8"


@pytest.mark.parametrize(
    ("first", "is_whole_node", "why"),
    [
        (100, True, "libtpu reports cores 100 to 107, this worker has 0 to 7"),
        (1, True, "libtpu reports cores 1 to 8, this worker has 0 to 7"),
        (0, True, None),
        (8, False, None),
    ],
)
def test_cores_that_a_node_of_one_worker_cannot_have_are_remarked_on(
    first: int, is_whole_node: bool, why: str | None
) -> None:
    told = RawMetrics(values={HBM_USED: [(first + core, 1) for core in range(8)]})
    found = validated(told, cores_per_chip=1, expected_cores=8, is_whole_node=is_whole_node)

    assert found.unknown.get("cores") == why


def test_the_reason_of_a_metric_that_did_not_come_is_kept() -> None:
    found = validated(RawMetrics(why_not={DUTY_CYCLE: "it hangs"}), cores_per_chip=1, expected_cores=None)

    assert found.unknown["duty_percent"] == "it hangs"
    assert (found.chips, found.cores) == ((), ())


@pytest.mark.parametrize(
    "lines_of",
    [
        lambda sample: chips_section(sample, "").lines,
        lambda sample: screen("mine", {**VIEW, "workers": [{**WORKER, "sample": sample.to_json()}]}),
    ],
    ids=["%tpu top", "jupyter tpu top"],
)
def test_a_person_reads_no_name_of_a_field(lines_of: Callable[[Sample], Iterable[str]]) -> None:
    fields = {each.name for each in (*dataclasses.fields(Core), *dataclasses.fields(Chip))} - {"core", "chip"}
    sample = Sample(at=1.0, state="measured", unknown=dict.fromkeys(fields, "libtpu lies"))

    said = [line.strip() for line in lines_of(sample) if "libtpu lies" in line]

    assert len(said) == len(fields)
    assert "HBM total: unknown, libtpu lies" in said
    assert not [line for line in said if any(word in line for word in ("bytes", "percent", "_"))]


def test_what_is_not_known_is_said_by_its_title_and_as_far_as_that_is_so() -> None:
    why = {"hbm_total_bytes": "it is 0", "hbm_used_bytes": "it hangs", "duty_percent": "nonsense", "cores": "one lacks"}
    sample = Sample(at=1.0, chips=(Chip(chip=0),), cores=(Core(core=0, chip=0, hbm_used_bytes=1),), unknown=why)

    assert list(sample.unknown_lines({"hbm_total_bytes": "HBM total"})) == [
        "HBM total: unknown, it is 0",
        "hbm used bytes: partly unknown, it hangs",
        "duty percent: unknown, nonsense",
        "cores: one lacks",
    ]


@given(
    st.dictionaries(
        st.sampled_from([HBM_TOTAL, HBM_USED, DUTY_CYCLE, TENSORCORE, QUEUE_SIZE]),
        st.lists(st.tuples(st.integers(-3, 100), st.floats()), max_size=100),
    ),
    st.integers(1, 2),
)
def test_whatever_libtpu_tells_the_sample_can_be_sent(
    values: dict[str, list[tuple[int, float]]], cores_per_chip: int
) -> None:
    found = validated(RawMetrics(values=values), cores_per_chip, 8)
    sample = Sample(at=1.0, chips=found.chips, cores=found.cores, unknown=found.unknown)

    assert Sample.from_json(sample.to_json()) == sample
    assert all(chip.duty_percent is None or 0 <= chip.duty_percent <= 100 for chip in sample.chips)


def sample_at(at: float, used: int | None = 1) -> Sample:
    holder = Holder(pid=7, user="me", command="python", since=1.5, is_own_user=True)
    cores = tuple(Core(core=core, chip=core, hbm_used_bytes=used) for core in range(8))
    chips = tuple(Chip(chip=chip, duty_percent=chip / 2) for chip in range(8))
    host = Host(cpus=2, cpu_percent=1.0, memory_used_bytes=5)
    return Sample(at=at, state="measured", chips=chips, cores=cores, host=host, holders=(holder,))


@pytest.mark.parametrize(("kernel_id", "is_kernel"), [("k", True), ("", False)])
def test_an_older_agent_tells_only_of_kernels(kernel_id: str, is_kernel: bool) -> None:
    assert Holder.from_json({"pid": 7, "kernel_id": kernel_id}).is_kernel is is_kernel


@pytest.mark.parametrize(
    "broken",
    [{"at": "x"}, {"state": "fine"}, {"cores": [{"core": "0", "chip": 0}]}, {"holders": [1]}, {"unknown": []}],
)
def test_a_sample_that_makes_no_sense_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        Sample.from_json({**sample_at(1.0).to_json(), **broken})


def test_the_ring_keeps_the_newest_and_says_what_was_not_known() -> None:
    ring = SampleHistory(samples=4)
    for at in range(10):
        ring.add(sample_at(float(at), used=None if at == 8 else at), float(at))

    history = ring.history(since=-1.0, step_s=1.0)

    assert history["at"] == [6.0, 7.0, 8.0, 9.0]
    assert history["hbm_used_bytes"]["3"] == [6, 7, None, 9]
    assert history["duty_percent"]["7"] == [3.5] * 4
    assert (history["cpu_percent"], history["tensorcore_percent"]) == ([1.0] * 4, {})
    assert ring.history(since=7.0, step_s=1.0)["at"] == [8.0, 9.0]


def test_an_hour_of_eight_cores_is_small() -> None:
    tracemalloc.start()
    ring = SampleHistory()
    for at in range(2 * 3600):
        ring.add(sample_at(float(at)), float(at))
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept_bytes < 2 * 1024 * 1024
    assert len(ring.history(since=-1.0, step_s=6.0)["at"]) == 600


def test_thinning_gives_the_mean_of_what_is_known_and_the_same_points_later() -> None:
    at = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert thinned(at, [[1.0, 3.0, None, 5.0, None, None]], 2.0) == ([1.0, 3.0, 5.0], [[2.0, 5.0, None]])
    assert thinned(at[:5], [[1.0, 3.0, None, 5.0, None]], 2.0)[0][:2] == [1.0, 3.0]
    assert thinned([], [[]], 2.0) == ([], [[]])
