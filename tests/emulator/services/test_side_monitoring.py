"""Time series: filters, alignment and reduction, and what the processes of a worker make of them."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import aiohttp
import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.services.monitoring.aggregation import Series, aggregated, aggregation_of
from jupyter_tpu.emulator.services.monitoring.filter import parse_filter
from jupyter_tpu.emulator.services.requests.calls import ServiceCall

DUTY = {
    "metric": {"type": "tpu.googleapis.com/accelerator/duty_cycle", "labels": {"accelerator_id": "0"}},
    "resource": {"type": "tpu.googleapis.com/GceTpuWorker", "labels": {"location": "us-east5-a"}},
}


# -- filters


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ('metric.type = "tpu.googleapis.com/accelerator/duty_cycle"', True),
        ('metric.type="tpu.googleapis.com/accelerator/duty_cycle" AND resource.labels.location="us-east5-a"', True),
        ('metric.type="tpu.googleapis.com/accelerator/duty_cycle" resource.labels.location="us-east5-b"', False),
        ('metric.type = starts_with("tpu.googleapis.com/")', True),
        ('metric.type = ends_with("/duty_cycle")', True),
        ('metric.type != has_substring("memory")', True),
        ('metric.labels.accelerator_id = one_of("1", "0")', True),
        ('metric.label."accelerator_id" = "0"', True),
        ('metric.type = monitoring.regex.full_match("tpu.*duty.*")', True),
        ('metric.type = monitoring.regex.full_match("duty")', False),
        ("resource.type = tpu_worker OR resource.labels.location : east5", True),
        ('NOT resource.type="tpu_worker"', True),
        ('-resource.type="tpu_worker" AND (metric.labels.none = "" OR metric.type = "x")', True),
        ('resource.type="tpu_worker" OR NOT (resource.labels.location = "us-east5-a")', False),
        ('metric.type = "with \\"quotes\\""', False),
        ("project = other", False),
    ],
)
def test_a_filter_holds_or_does_not(expression: str, holds: bool) -> None:
    assert parse_filter(expression)(DUTY) is holds


@pytest.mark.parametrize(
    "expression",
    [
        "metric.type",
        "metric.type =",
        'metric.type = "open',
        'metric.type > "a"',
        'metric.type = "a" AND',
        '(metric.type = "a"',
        'metric.type = "a")',
        'metric.kind = "a"',
        'group.id = "a"',
        'metric.type = shout("a")',
        'metric.type = monitoring.regex.full_match("(")',
        'metric.type = starts_with("a"',
        "§",
        "(" * 2000,
        "metric.type = a " * 1000,
    ],
)
def test_a_broken_filter_is_refused(expression: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_filter(expression)
    assert caught.value.status.message.startswith("Field filter had an invalid value: ")


WORDS = st.sampled_from(
    [
        *('metric.type = "a"', "resource.type", "AND", "OR", "NOT", "(", ")", "-", "=", "!=", ":", '"', "'", ","),
        *("one_of(", "metric.labels.x", "\\", "é", "9"),
    ]
)


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=20).map(" ".join)))
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    try:
        parse_filter(text)(DUTY)
    except Refusal:
        return


# -- aggregation


def series(location: str, *points: tuple[float, float]) -> Series:
    return Series(
        metric={"type": "m", "labels": {"core": "0"}},
        resource={"type": "r", "labels": {"project_id": "p", "location": location}},
        value="INT64",
        unit="By",
        points=points,
    )


def asked(**query: str) -> Any:
    words = {name.replace("_", ".", 1): value for name, value in query.items()}
    lists = {"aggregation.groupByFields": [words["aggregation.groupByFields"]]} if len(words) > 3 else {}
    return aggregation_of(ServiceCall(parts={}, query=words, lists=lists))


@pytest.mark.parametrize(
    ("aligner", "points"),
    [
        ("ALIGN_MEAN", ((1000.0, 3.0), (940.0, 5.0))),
        ("ALIGN_MAX", ((1000.0, 4), (940.0, 5))),
        ("ALIGN_SUM", ((1000.0, 6), (940.0, 5))),
        ("ALIGN_COUNT", ((1000.0, 2), (940.0, 1))),
        ("ALIGN_NONE", ((930.0, 5), (960.0, 2), (1000.0, 4))),
    ],
)
def test_points_are_aligned_to_periods_that_end_with_the_interval(
    aligner: str, points: tuple[tuple[float, float], ...]
) -> None:
    how = asked(aggregation_alignmentPeriod="60s", aggregation_perSeriesAligner=aligner)

    (aligned,) = aggregated([series("a", (930.0, 5), (960.0, 2), (1000.0, 4))], how, 1000.0)

    assert sorted(aligned.points) == sorted(points)


def test_series_are_reduced_group_by_group() -> None:
    how = asked(
        aggregation_alignmentPeriod="60s",
        aggregation_perSeriesAligner="ALIGN_MAX",
        aggregation_crossSeriesReducer="REDUCE_SUM",
        aggregation_groupByFields="resource.label.location",
    )
    found = [series("a", (1000.0, 1)), series("b", (1000.0, 2)), series("a", (1000.0, 4))]

    reduced = aggregated(found, how, 1000.0)

    assert [(each.resource["labels"], each.points) for each in reduced] == [
        ({"project_id": "p", "location": "a"}, ((1000.0, 5),)),
        ({"project_id": "p", "location": "b"}, ((1000.0, 2),)),
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"aggregation_alignmentPeriod": "1s", "aggregation_perSeriesAligner": "ALIGN_MAX"},
        {"aggregation_alignmentPeriod": "an hour"},
        {"aggregation_perSeriesAligner": "ALIGN_MAX"},
        {"aggregation_alignmentPeriod": "60s", "aggregation_perSeriesAligner": "ALIGN_PERCENTILE_99"},
        {"aggregation_crossSeriesReducer": "REDUCE_SUM"},
    ],
)
def test_an_aggregation_that_is_not_supported_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Refusal):
        asked(**query)


# -- on a worker


async def listed(emulator: Any, expression: str) -> list[dict[str, Any]]:
    now = emulator.control.now()
    moments = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + offset)) for offset in (-86_400, 600)]
    query = {"filter": expression, "interval.startTime": moments[0], "interval.endTime": moments[1]}
    url = f"{emulator.rest}/v3/projects/{emulator.project}/timeSeries?{urllib.parse.urlencode(query)}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return list(json.loads(await answer.text()).get("timeSeries", []))


async def eventually(
    emulator: Any, expression: str, holds: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Ask until it holds: a look at the workers serves everybody who asks within a second."""
    async with asyncio.timeout(60):
        while not holds(found := await listed(emulator, expression)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return found


@pytest.fixture
async def connection(cloud: Any, user_key: Any, login: Any) -> asyncssh.SSHClientConnection:
    await cloud.create(metadata=user_key.metadata)
    return await login((await cloud.guest_items())[0])


def newest(found: dict[str, Any]) -> float:
    value = found["points"][0]["value"]
    return float(value.get("doubleValue", value.get("int64Value")))


async def test_memory_of_a_worker_is_that_of_its_processes(connection: Any, emulator: Any) -> None:
    program = "python3 -c \"x = b'x' * 300_000_000; print('grown', flush=True); input()\""
    process = await connection.create_process(program)
    await process.stdout.readline()

    usage = 'metric.type = "tpu.googleapis.com/memory/usage"'
    await eventually(emulator, usage, lambda found: newest(found[0]) > 300_000_000)


async def test_chips_have_series_only_while_a_process_has_them(connection: Any, emulator: Any) -> None:
    accelerators = 'metric.type = starts_with("tpu.googleapis.com/accelerator/")'
    assert await listed(emulator, accelerators) == []
    holder = await connection.create_process("emulated-tpu hold")
    assert "holding" in await holder.stdout.readline()
    emulator.control.advance(60)

    found = await eventually(
        emulator, f"{accelerators} AND metric.labels.accelerator_id = 7", lambda found: len(found) > 3
    )

    values = {each["metric"]["type"].rpartition("/")[2]: newest(each) for each in found}
    assert values["memory_total"] == 16 * 2**30
    assert 0 < values["memory_used"] < values["memory_total"]
    assert set(values) == {"duty_cycle", "tensorcore_utilization", "memory_used", "memory_total"}


async def test_series_of_a_node_are_gone_with_it(connection: Any, cloud: Any, emulator: Any) -> None:
    everything = 'resource.type = "tpu_worker"'
    assert await listed(emulator, everything)

    await cloud.delete()

    assert await listed(emulator, everything) == []
