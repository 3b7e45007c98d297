"""On the demo's cloud, whose time runs faster and jumps, a node has cost the same wherever it is shown."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from warm_python import run_warm

if TYPE_CHECKING:
    from emulator import EmulatorPool

    from conftest import Cloud, OpenPages, Page, Server

ZONE = "us-central1-a"
NEW_NODE = {
    "node_id": "my-node",
    "zone": ZONE,
    "accelerator_type": "v5litepod-8",
    "runtime_version": "v2-alpha-tpuv5-lite",
}
HOUR_S = 3600.0
WATCHED_SCALE = 20  # so slow that the server looks at the nodes without a gap
STARTED_AT = time.time()
USD_PER_HOUR = 9.6
ROW = {"chips": 64, "generation": "v5e", "spot": True, "zone": ZONE}
TINY = {"amount": 0.000001, "unit": "usd", "period": "total"}
# as text, which a page of a test collects
TPU_COST = """from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.notebook.magics.subcommands import run_line
print(run_line("cost", MagicContext()))"""


@pytest.fixture(scope="module")
def cloud(emulator_pool: EmulatorPool) -> Iterator[Cloud]:
    """A cloud as the demo's."""
    with emulator_pool.lent("--show-time") as emulator:
        yield emulator


def environment_of(server: Server, cloud: Cloud) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(server.folder),
        "JUPYTER_TPU_DATA_DIR": str(server.folder / "tpu"),
        **cloud.variables,
    }


def json_in_terminal(server: Server, cloud: Cloud, command: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "jupyter_tpu.cli", command, "--json"]
    done = run_warm(argv, env=environment_of(server, cloud), cwd=server.folder, timeout=240)
    view: dict[str, Any] = json.loads(done.stdout)
    return view


def cost_in_terminal(server: Server, cloud: Cloud) -> float:
    return float(json_in_terminal(server, cloud, "cost")["nodes"][-1]["usd"])


def notes_in_terminal(server: Server, cloud: Cloud, command: str) -> str:
    argv = [sys.executable, "-m", "jupyter_tpu.cli", command]
    done = run_warm(argv, env=environment_of(server, cloud), cwd=server.folder, timeout=240)
    assert done.returncode == 0, done.stderr
    return str(done.stderr)


@pytest.mark.parametrize("command", ["cost", "list"])
def test_a_terminal_says_how_fast_the_clock_runs_that_costs_follow(server: Server, cloud: Cloud, command: str) -> None:
    cloud.control.set_time_scale(10)
    assert "its clock runs at 10 × real time" in notes_in_terminal(server, cloud, command)
    cloud.control.set_time_scale(1)
    assert "Costs are simulated: the cloud is emulated.\n" in notes_in_terminal(server, cloud, command)


def cost_in_panel(server: Server) -> list[float]:
    (node,) = server.tpu("GET", "nodes").json["nodes"]
    return [node["cost_usd"], server.tpu("GET", "spend").json["nodes"][-1]["usd"]]


async def cost_in_notebook(page: Page) -> tuple[float, float]:
    """Dollars so far, and how many seconds old the number is."""
    msg_id = page.execute(TPU_COST)
    await page.until_idle(msg_id)
    shown = page.text(msg_id)
    found = re.search(r"updated (\d+) s ago.*?\$([0-9.]+) so far", shown, re.DOTALL)
    # at first the node has received no data
    return (float(found[2]), float(found[1])) if found else (0.0, 0.0)


async def test_cost_so_far_is_one_number_on_every_surface(server: Server, cloud: Cloud, open_page: OpenPages) -> None:
    cloud.control.set_time_scale(WATCHED_SCALE)
    asked = server.tpu("POST", "nodes", NEW_NODE)
    assert asked.status == 202, asked.text
    async with server.events() as events:
        # with its kernelspec, which a READY node has once its workers can be reached
        await events.until_true(lambda: is_usable(server))
        kernel = server.request("POST", "api/kernels", {"name": f"tpu-my-node-{ZONE}"}).json
        page = await open_page(server, kernel["id"])
        billed = 0.0
        for scale in (1.0, 10.0):
            cloud.control.set_time_scale(scale)
            cloud.control.advance(2 * HOUR_S)
            server.tpu("POST", "refresh")
            before = cloud.control.ledger()["nodes"][-1]["usd"]
            assert before > billed + 1.9 * USD_PER_HOUR
            shown = [*cost_in_panel(server), cost_in_terminal(server, cloud)]
            billed = cloud.control.ledger()["nodes"][-1]["usd"]
            # a node is seen READY a moment after it is billed
            slack = USD_PER_HOUR * 600 / HOUR_S
            for usd in shown:
                assert before - slack <= usd <= billed + slack
            usd, age_s = await until_sent(page, before - slack)
            assert usd + USD_PER_HOUR * age_s * scale / HOUR_S <= cloud.control.ledger()["nodes"][-1]["usd"] + slack
        await all_surfaces_agree(server, cloud, page)
    cloud.control.set_time_scale(200)


async def all_surfaces_agree(server: Server, cloud: Cloud, page: Page) -> None:
    """But for rounding, also on a node that was pre-empted between two looks at it; only this test moves the clock."""
    name = cloud.node_name("gone")
    cloud.control.set_time_scale(WATCHED_SCALE)
    async with server.events() as events:
        assert server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "gone", "provisioning": "spot"}).status == 202
        await events.until_true(lambda: is_listed(server, name))
        cloud.control.set_time_scale(0.01)
        assert json_in_terminal(server, cloud, "cost")["is_complete"]  # this writes the look down
        cloud.control.preempt(name)
        cloud.control.advance(100)
        server.tpu("POST", "refresh")
        await events.until_true(lambda: not row_of(server, name)["is_open"])
    allowed = {"amount": 1000.0, "unit": "usd", "period": "total", "action": "warn"}
    assert server.tpu("PUT", "budgets/all", allowed).status == 200
    spend, shown = server.tpu("GET", "spend").json, json_in_terminal(server, cloud, "cost")
    total, budget = await totals_in_notebook(page)
    (used,), (used_in_terminal,) = spend["budgets"], shown["budgets"]
    same = pytest.approx(spend["total"]["usd"], abs=0.015)
    assert [used["used"], used_in_terminal["used"], shown["total"]["usd"], total, budget] == [same] * 5
    assert (used["unwatched"], used_in_terminal["unwatched"]) == (0, 0)
    listed, in_terminal = server.tpu("GET", "nodes").json, json_in_terminal(server, cloud, "list")
    for nodes in (listed["nodes"], in_terminal["nodes"]):
        costs = {node["name"]: node["cost_usd"] for node in nodes}
        assert costs == {each: pytest.approx(row_of(server, each)["usd"], abs=0.015) for each in costs}
        assert sum(costs.values()) == same
    grant = {"kind": "trc", "starts_on": "2026-01-01", "days": 3660, "rows": [{**ROW, "spot": False}]}
    assert server.tpu("PUT", "grants/mine", grant).status == 200
    assert server.tpu("GET", "spend").json["usd_per_hour"] == 0
    listed, in_terminal = server.tpu("GET", "nodes").json, json_in_terminal(server, cloud, "list")
    for nodes in (listed["nodes"], in_terminal["nodes"]):
        assert {node["node_id"]: node["covered"] for node in nodes} == {"my-node": True, "gone": False}
    assert server.tpu("DELETE", "grants/mine").status == 204
    assert not any(node["covered"] for node in server.tpu("GET", "nodes").json["nodes"])


def is_listed(server: Server, name: str) -> bool:
    return any(node["name"] == name and node["is_open"] for node in server.tpu("GET", "spend").json["nodes"])


def row_of(server: Server, name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = server.tpu("GET", "spend").json["nodes"]
    return [row for row in rows if row["name"] == name][-1]


async def totals_in_notebook(page: Page) -> tuple[float, float]:
    """Dollars of all nodes, and of the budget, as soon as the node knows both."""
    while True:
        msg_id = page.execute(TPU_COST)
        await page.until_idle(msg_id)
        found = re.search(r"in total +\$([0-9.]+).*?all +\$([0-9.]+) +\$1,000", page.text(msg_id), re.DOTALL)
        if found:
            return float(found[1]), float(found[2])


async def until_sent(page: Page, at_least: float) -> tuple[float, float]:
    usd, age_s = await cost_in_notebook(page)
    while usd < at_least:
        usd, age_s = await cost_in_notebook(page)
    return usd, age_s


def is_usable(server: Server) -> bool:
    return any(each["state"] == "READY" and each["kernelspec"] for each in server.tpu("GET", "nodes").json["nodes"])


def test_the_clock_of_the_demo_is_no_wrong_clock(server: Server) -> None:
    assert not [notice for notice in server.tpu("GET", "nodes").json["notices"] if "clock" in notice["message"]]


async def test_the_activity_log_has_the_time_of_this_computer(server: Server, cloud: Cloud) -> None:
    cloud.control.advance(24 * HOUR_S)
    grant = {"kind": "trc", "starts_on": "2026-01-01", "days": 30, "rows": [ROW]}
    async with server.events() as events:
        assert server.tpu("POST", "nodes", {**NEW_NODE, "node_id": "too-dear"}).status == 202
        await events.until_true(lambda: cloud.control.billing() != [])
        assert server.tpu("PUT", "budgets/tiny", TINY).status == 200
        # it is stopped, or deleted if its creation has not ended here
        await events.until_true(lambda: {"stop", "delete"} & {each["action"] for each in audit(server)} != set())
        assert server.tpu("DELETE", "budgets/tiny").status == 204
        assert server.tpu("PUT", "grants/mine", grant).status == 200
        assert server.tpu("DELETE", "grants/mine").status == 204
    assert {"budget", "budget_level", "grant"} <= {each["action"] for each in audit(server)}
    assert [each for each in audit(server) if not STARTED_AT - 60 <= each["at"] <= time.time() + 60] == []


def audit(server: Server) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = server.tpu("GET", "audit").json["entries"]
    return entries
