"""The project's quota as users see it, against what the emulated cloud counts."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import pytest

from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE
from jupyter_tpu.errors import BadInput, QuotaExceeded
from jupyter_tpu.fleet.spend.quota_report import QuotaReport, QuotaService, after_view, quota_view, read_quota
from jupyter_tpu.models import NodeName, NodeSpec, QueuedName, QueuedSpec

ZONE = "us-central1-a"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
SPOT_SERVING = "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI"


@pytest.fixture
def cloud(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bench's cloud, whose REST address the environment names, as a user would."""
    monkeypatch.setenv(ADDRESS_VARIABLE, bench.emulator.rest)
    return bench.cloud


async def node(bench: Any, node_id: str, accelerator_type: str = "v5litepod-8", *, spot: bool = False) -> None:
    """A READY node that somebody has made."""
    await bench.cloud.create_node(bench.spec(node_id, accelerator_type=accelerator_type, spot=spot))
    bench.emulator.control.advance(3600)


async def queue(bench: Any, queued_id: str, accelerator_type: str = "v5litepod-8", *, spot: bool = False) -> None:
    name = QueuedName(project=bench.emulator.project, zone=ZONE, queued_id=queued_id)
    wanted = NodeSpec(
        name=NodeName(project=bench.emulator.project, zone=ZONE, node_id=f"{queued_id}-node"),
        accelerator_type=accelerator_type,
        runtime_version=bench.emulator.runtime_version,
        spot=spot,
    )
    await bench.cloud.create_queued_resource(QueuedSpec(name=name, node=wanted))


def rows(report: QuotaReport) -> dict[tuple[str, str], int]:
    return {(use.quota.quota_id, use.place): use.used for use in report.uses() if use.users}


def rows_of_the_cloud(bench: Any) -> dict[tuple[str, str], int]:
    told = bench.emulator.control.quotas()
    return {(row["quota_id"], row.get("zone") or row["region"]): row["used"] for row in told if row["used"]}


async def test_use_is_what_the_cloud_counts_of_nodes_spot_queued_resources_and_leftovers(
    bench: Any, cloud: Any
) -> None:
    control = bench.emulator.control
    await node(bench, "small", "v5litepod-4")
    await node(bench, "large", "v5litepod-16")
    await node(bench, "cheap", spot=True)
    control.preempt(str(bench.name("cheap")))
    await node(bench, "resting")
    await cloud.stop_node(bench.name("resting"))
    await queue(bench, "made", spot=True)
    control.advance(3600)
    control.set_capacity(ZONE, "v5e", 0)
    await queue(bench, "waiting")
    control.advance(600)

    report = await read_quota(cloud)

    assert rows(report) == rows_of_the_cloud(bench)
    states = {held.name.rpartition("/")[2]: (held.state, held.is_leftover) for held in report.holdings.held}
    assert states == {
        "small": ("READY", False),
        "large": ("READY", False),
        "cheap": ("PREEMPTED", True),
        "resting": ("STOPPED", False),
        "made-node": ("READY", False),
        "waiting": ("WAITING_FOR_RESOURCES", False),
    }
    assert report.is_complete


async def test_a_suspended_queued_resource_counts_and_is_shown_as_a_leftover(bench: Any, cloud: Any) -> None:
    await queue(bench, "lost", spot=True)
    bench.emulator.control.advance(3600)
    bench.emulator.control.preempt(str(bench.name("lost-node")))
    bench.emulator.control.advance(3600)

    view = quota_view(await read_quota(cloud))

    (by_zone,) = [row for row in view["limits"] if row["quota_id"] == SPOT_SERVING and row["users"]]
    (user,) = by_zone["users"]
    facts = ("kind", "state", "amount", "is_leftover")
    assert [user[fact] for fact in facts] == ["queued_resource", "SUSPENDED", 8, True]
    assert rows(await read_quota(cloud)) == rows_of_the_cloud(bench)


async def test_what_a_request_would_leave_is_what_the_cloud_then_refuses_by(bench: Any, cloud: Any) -> None:
    bench.emulator.control.set_quota(SERVING, ZONE, 12)
    await node(bench, "first")
    report = await read_quota(cloud)

    (small, _) = after_view(report, report.after(zone=ZONE, accelerator_type="v5litepod-4", provisioning="on-demand"))[
        "rows"
    ]
    (large, _) = after_view(report, report.after(zone=ZONE, accelerator_type="v5litepod-8", provisioning="on-demand"))[
        "rows"
    ]

    assert (small["limit"], small["used"], small["asked"], small["after"], small["fits"]) == (12, 8, 4, 0, True)
    assert (large["after"], large["fits"]) == (-4, False)
    with pytest.raises(QuotaExceeded) as refused:
        await cloud.create_node(bench.spec("second"))
    assert "jupyter tpu quota" in refused.value.hint
    assert "jupyter tpu cleanup" in refused.value.hint
    with pytest.raises(BadInput, match="not a known accelerator type"):
        report.after(zone=ZONE, accelerator_type="v9x-1", provisioning="on-demand")


async def test_limits_that_cannot_be_read_leave_the_use(bench: Any, cloud: Any) -> None:
    denied = ["cloudquotas.quotas.get", "serviceusage.quotas.get"]
    bench.emulator.control.set_project(denied_permissions=denied)
    await node(bench, "first")

    view = quota_view(await read_quota(cloud))

    assert view["error"]["code"] == "permission_denied"
    assert view["is_complete"] is True
    assert [(row["limit"], row["used"], row["free"]) for row in view["limits"]] == [(None, 8, None)] * 2


async def test_use_that_was_not_all_seen_is_said_to_be_so(bench: Any, cloud: Any) -> None:
    bench.emulator.control.add_fault("ListQueuedResources", "error", code=13, message="an internal error")

    report = await read_quota(cloud)

    view = quota_view(report)
    assert view["is_complete"] is False
    assert "an internal error" in view["error"]["raw"]
    assert [row.fits for row in report.after(zone=ZONE, accelerator_type="v5litepod-8", provisioning="on-demand")] == [
        None,
        None,
    ]


async def test_a_desk_reads_once_for_all_who_ask(bench: Any, cloud: Any) -> None:
    desk = QuotaService(cloud, keep_s=3600.0)

    first, second = await asyncio.gather(desk.report("same"), desk.report("same"))
    await node(bench, "first")

    assert first.holdings is second.holdings
    assert (await desk.report("same")).holdings is first.holdings
    changed = await desk.report("changed")
    assert rows(changed) == rows_of_the_cloud(bench)
    assert changed.limits is first.limits
    assert changed.as_of == first.as_of  # as old as its oldest part
    desk.forget_use()
    assert (await desk.report("changed")).holdings is not changed.holdings


async def test_a_desk_keeps_nothing_longer_than_it_may(bench: Any, cloud: Any) -> None:
    desk = QuotaService(cloud, keep_s=0.0)

    first = await desk.report()

    assert (await desk.report()).limits is not first.limits


@pytest.mark.parametrize("is_queued", [False, True])
async def test_what_the_cloud_holds_for_others_counts_as_well(bench: Any, cloud: Any, is_queued: bool) -> None:
    node = {"acceleratorType": "v2-8", "runtimeVersion": "tpu-vm-tf-2.11.0", "schedulingConfig": {"preemptible": True}}
    parent = bench.emulator.parent.replace(ZONE, "us-central1-b")
    spec = {"parent": parent, "nodeId": "theirs", "node": node}
    body = {"tpu": {"nodeSpec": [spec]}} if is_queued else node
    part = "queuedResources?queuedResourceId=theirs" if is_queued else "nodes?nodeId=theirs"
    url = f"{bench.emulator.rest}/v2/{parent}/{part}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120):
        pass

    assert rows(await read_quota(cloud)) == rows_of_the_cloud(bench)
    assert {key[0] for key in rows(await read_quota(cloud))} == {
        "TPUV2sPreemptiblePerProjectPerZoneForTPUAPI",
        "TPUV2sPreemptiblePerProjectPerRegionForTPUAPI",
    }
