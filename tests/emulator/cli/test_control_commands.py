"""The commands that steer a running emulator: what they print, for people and as JSON, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.emulator.api_faults.kinds import KINDS
from jupyter_tpu.emulator.cli import commands
from jupyter_tpu.emulator.cli.control_commands import COMMANDS
from jupyter_tpu.emulator.limits.capacity import families_in

State = tpu_v2.Node.State
QUOTA = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(emulator: Any, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``jupyter tpu emulator …`` for the emulator of the test."""

    def perform(*argv: str) -> Ran:
        capsys.readouterr()
        status = commands.main([*argv, "--emulator", emulator.rest])
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return perform


@pytest.fixture
async def ready(cloud: Any) -> Any:
    """A cloud in a time that stands still, with the READY spot node n1, just made."""
    cloud.control.pause()
    await cloud.ask_for_node(scheduling_config=tpu_v2.SchedulingConfig(spot=True))
    cloud.control.advance(90)
    return cloud


def test_the_names_of_the_commands_are_known_without_loading_them() -> None:
    assert set(COMMANDS) == commands.CONTROLS


def test_they_load_neither_the_cloud_nor_its_protocols() -> None:
    asked = "import sys; from jupyter_tpu.emulator.cli import control_commands, fault; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()

    assert {"grpc", "aiohttp", "asyncssh", "google.protobuf", "sqlite3"}.isdisjoint(loaded)


async def test_the_ledger_is_a_table_or_json(ready: Any, run: Run) -> None:
    ready.control.advance(3600)

    header, row, total = run("ledger").out.splitlines()
    assert header.split() == ["NODE", "ZONE", "TYPE", "MODE", "READY", "PRICE", "COST", "BILLED"]
    assert row.split() == ["n1", "us-central1-a", "v5litepod-8", "spot", "1:00:00", "$4.8000/h", "$4.800000000", "now"]
    assert total == "Ledger: $4.800000000 (emulated: no charge); 1 billed now, $4.8000/h"
    assert run("ledger", "--json").json["nodes"][0]["nano_usd"] == 4_800_000_000
    assert "3600 s, $4.800000000" in run("ledger", "n1", "--spans").out
    assert "There is no bill for a node 'other'; nodes: n1." in run("ledger", "other").err


async def test_a_node_is_preempted_by_its_name(ready: Any, run: Run) -> None:
    ran = run("preempt", "n1")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "n1 is pre-empted: it is no longer billed, and can only be deleted.\n"
    assert (await ready.get()).state == State.PREEMPTED


async def test_a_node_is_preempted_with_notice(ready: Any, run: Run) -> None:
    assert run("preempt", "n1", "--notice", "30").out == "n1 will be pre-empted in 30 virtual seconds.\n"

    assert (await ready.get()).state == State.READY
    ready.control.advance(31)
    assert (await ready.get()).state == State.PREEMPTED


async def test_the_clock_is_shown_paused_moved_and_resumed(ready: Any, run: Run) -> None:
    before = ready.control.now()

    assert run("clock").out.endswith("in virtual time, paused.\n")
    assert run("clock", "--advance", "4h", "--json").json["now"] == before + 14_400
    assert run("clock", "--resume", "--scale", "5").out.endswith("in virtual time, 5 virtual seconds per second.\n")
    assert run("clock", "--pause", "--json").json["paused"] is True


def test_a_stock_out_is_made_and_ended(emulator: Any, run: Run) -> None:
    assert "v5e in us-central1-a: 0 chips, 0 used, stocked out" in run("stockout", "us-central1-a", "--for", "10m").out
    assert "v5e in us-central1-a: unlimited, 0 used\n" in run("stockout", "us-central1-a", "--end").out
    pools = run("stockout", "us-central1-a", "v5e", "--chips", "8", "--json").json["capacity"]
    assert [pool["chips"] for pool in pools if pool["family"] == "v5e"] == [8]


def test_capacity_is_set_to_a_number_a_script_or_a_seed(emulator: Any, run: Run) -> None:
    assert run("capacity").out == "Capacity is unlimited in every zone.\n"
    assert run("capacity", "us-central1-a", "v5e", "16").out == "v5e in us-central1-a: 16 chips, 0 used\n"
    run("capacity", "us-central1-a", "v5e", "--script", "0:8,10m:0,1h:unlimited")
    (pool,) = emulator.control.capacity()
    first = pool["script"][0][0]
    assert [(round(moment - first), chips) for moment, chips in pool["script"]] == [(0, 8), (600, 0), (3600, None)]
    assert run("capacity", "us-central1-a", "v5e", "16", "--seed", "7", "--json").json["capacity"][0]["seed"] == 7
    assert run("capacity", "us-central1-a", "v5e", "unlimited").out == "v5e in us-central1-a: unlimited, 0 used\n"


def test_a_quota_is_limited(emulator: Any, run: Run) -> None:
    assert run("quota").out == "No quota is limited or used.\n"
    assert run("quota", QUOTA, "us-central1-a", "4").out == f"{QUOTA} in us-central1-a: 0 of 4 chips used\n"
    assert run("quota", QUOTA, "us-central1-a", "unlimited", "--json").json["quotas"][0]["limit"] == -1


def test_a_reservation_is_made_and_taken_away(emulator: Any, run: Run) -> None:
    assert run("reserve", "mine", "us-central1-a", "v5e", "64").out == "mine: 64 chips of v5e in us-central1-a\n"
    assert run("reserve", "mine", "us-central1-a", "v5e", "0").out == "The project has no reservation.\n"


def test_the_example_of_a_reservation_can_be_reserved(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("reserve", "--help")
    zone, family = re.findall(r"such as\s+([-\w]+)", capsys.readouterr().out)
    assert family in families_in(zone)
    assert f"reserve mine {zone} {family} 64." in run("reserve", "mine").err


def test_switches_of_the_project_are_changed(emulator: Any, run: Run) -> None:
    lines = run("project", "api_enabled=off", "denied_locations=us-east5-a,us-east5-b", "addresses_per_region=8").out

    assert {"api_enabled=false", "denied_locations=us-east5-a,us-east5-b", "addresses_per_region=8"} <= set(
        lines.splitlines()
    )
    assert (
        run("project", "api_enabled=true", "addresses_per_region=none", "--json").json["addresses_per_region"] is None
    )


async def test_maintenance_is_announced(ready: Any, run: Run) -> None:
    assert run("maintenance").out == "No maintenance is planned.\n"
    assert run("maintenance", "n1", "--in", "60").out.startswith("n1: SCHEDULED, begins ")
    ready.control.advance(60)
    assert (await ready.get()).state == State.REPAIRING
    assert "under way" in run("maintenance").out


async def test_faults_of_calls_are_set_listed_and_cleared(ready: Any, run: Run) -> None:
    listed = run("fault", "call", "GetNode", "error", "--code", "429", "--message", "slow down", "--times", "2").out
    assert listed == "1: error of GetNode, RESOURCE_EXHAUSTED 'slow down', 2 times more, hit 0 of 0 calls\n"
    run("fault", "call", "*", "latency", "--seconds", "1", "--target", "n1", "--lasting")
    assert [fault["kind"] for fault in run("fault", "list", "--json").json["faults"]] == ["error", "latency"]
    assert "2: latency of * for n1, 1 s, until it is cleared" in run("fault", "list").out
    assert run("fault", "clear", "1", "--json").json["faults"][0]["id"] == 2
    assert run("fault", "clear").out == "No pending faults.\n"


async def test_a_worker_is_broken_and_mended(ready: Any, run: Run) -> None:
    assert run("fault", "worker", "n1", "slow", "--factor", "3").out == "worker 0: slow factor=3\n"
    assert run("fault", "worker", "n1", "--json").json["workers"] == [{"faults": [{"verb": "slow", "factor": 3}]}]
    assert run("fault", "worker", "n1", "clear").out == "worker 0: no faults\n"
    assert "factor is missing" in run("fault", "worker", "n1", "slow").err


async def test_the_state_names_what_there_is(ready: Any, run: Run) -> None:
    run("fault", "call", "GetNode", "drop", "--nth", "3", "--probability", "0.5", "--seed", "9")
    run("capacity", "us-central1-a", "v5e", "16")

    shown = run("state")

    assert shown.status == 0
    assert "1 node:\n  n1 in us-central1-a: READY (v5litepod-8, spot)\n" in shown.out
    assert "1: drop of GetNode, with probability 0.5 (seed 9), from call 3 on, 1 time more" in shown.out
    assert "v5e in us-central1-a: 16 chips, 8 used" in shown.out
    assert "api_enabled=true" in shown.out
    assert run("state", "--json").json == ready.control.state()


async def test_a_reset_must_be_meant(ready: Any, run: Run) -> None:
    refused = run("reset")
    assert (refused.status, "confirm with --yes" in refused.err) == (1, True)
    assert (await ready.get()).name

    assert (
        run("reset", "--yes").out == "Project demo-project is empty: no nodes, no faults, no limits, nothing billed.\n"
    )
    assert ready.control.state()["node_count"] == 0


REFUSED = [
    (("preempt", "ghost"), "There is no node 'ghost'; there are no nodes"),
    (("maintenance", "ghost"), "There is no node 'ghost'"),
    (("stockout", "mars"), "'mars' is not a zone with TPUs"),
    (("stockout", "us-central1-a", "v9"), "has no chips of 'v9'"),
    (("stockout", "us-central1-a", "--chips", "-1"), "chips: -1 is not a whole number"),
    (("stockout", "us-central1-a", "--chips", "1000000000"), "chips: 1000000000 is too large: the limit is 1000000000"),
    (("stockout", "us-central1-a", "--end", "--chips", "3"), "--end cannot be combined with --chips or --for"),
    (("stockout", "us-central1-a", "--end", "--for", "3m"), "--end cannot be combined with --chips or --for"),
    (("ledger", "ghost"), "There is no bill for a node 'ghost'; no node was READY yet."),
    (("clock", "--advance", "1e9"), "advance_s: 1000000000.0 is too large: the limit is 1000000000"),
    (("capacity", "us-central1-a"), "Give the zone, the family and the chips"),
    (("capacity", "us-central1-a", "v5e"), "Give the zone, the family and the chips"),
    (("quota", "CPUS", "us-central1-a", "1"), "'CPUS' is not the id of a quota"),
    (("quota", QUOTA), "Give the quota, the place and the limit"),
    (("quota", QUOTA, "mars", "1"), "'mars' is not a zone with TPUs"),
    (("reserve", "mine"), "Give the name, the zone, the family and the chips"),
    (("project", "api_enabled"), "'api_enabled' is not of the form SWITCH=VALUE"),
    (("project", "moon=full"), "moon"),
    (("project", "api_enabled=7"), "7 is neither true nor false"),
    (("clock", "--scale", "0"), "scale: 0 is not a positive number"),
    (("clock", "--advance", "-5"), "advance_s: -5.0 is not a number"),
    (("fault", "call", "GetNode", "earthquake"), "unknown kind of fault 'earthquake'; kinds: "),
    (("fault", "call", "EatNode", "error"), "error cannot affect 'EatNode'; methods: "),
    (("fault", "call", "GetNode", "error", "--code", "nonsense"), "'nonsense' is not an error code of google.rpc.Code"),
    (("fault", "clear", "77"), "fault 77"),
]


@pytest.mark.parametrize(
    ("argv", "words"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_what_makes_no_sense_is_refused_with_what_to_do(run: Run, argv: tuple[str, ...], words: str) -> None:
    ran = run(*argv)

    assert (ran.status, ran.out) == (1, "")
    assert words in ran.err
    assert f"do: See `jupyter tpu emulator {argv[0]}" in ran.err
    assert "Traceback" not in ran.err
    assert words in run(*argv, "--json").json["error"]["message"]


@pytest.mark.parametrize(
    "argv",
    [
        ("preempt",),
        ("preempt", "n1", "--notice", "soon"),
        ("clock", "--advance", "tomorrow"),
        ("clock", "--advance", "nanh"),
        ("clock", "--scale", "inf"),
        ("fault", "call", "GetNode", "latency", "--seconds", "nan"),
        ("clock", "--pause", "--resume"),
        ("capacity", "us-central1-a", "v5e", "many"),
        ("capacity", "us-central1-a", "v5e", "--script", "soon:8"),
        ("maintenance", "n1", "--kind", "GREEN"),
        ("fault",),
        ("fault", "earth"),
        ("ledger", "--color"),
    ],
)
def test_what_cannot_be_parsed_is_said_with_the_usage(run: Run, argv: tuple[str, ...], capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*argv)

    assert stopped.value.code == 2
    assert "usage: jupyter tpu emulator" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "nonsense", "http://[", "http://127.0.0.1:99999", "file:///"]
)
def test_an_emulator_that_does_not_answer_is_said_not_to(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["state", "--emulator", address]) == 1

    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: No emulator responds at {address}")
    assert "Start one with `jupyter tpu emulator`" in printed.err


def test_no_emulator_is_asked_for_when_none_is_known(emulator: Any) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JUPYTER_TPU_EMULATOR"}
    command = [sys.executable, "-m", "jupyter_tpu.cli", "emulator", "state"]

    unknown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    known = subprocess.run(
        command, env={**environment, "JUPYTER_TPU_EMULATOR": emulator.rest}, capture_output=True, text=True, check=False
    )

    assert (unknown.returncode, known.returncode) == (1, 0)
    assert "Pass --emulator URL, or set JUPYTER_TPU_EMULATOR" in unknown.stderr
    assert known.stdout.startswith("Project demo-project, ")


def in_shell(emulator: Any, script: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m jupyter_tpu.emulator …`` as `exec "$@"` in a script of the shell."""
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "jupyter_tpu.emulator", *argv]
    environment = {**os.environ, "JUPYTER_TPU_EMULATOR": emulator.rest}
    environment.pop("PYTHONUNBUFFERED", None)  # with it, nothing is left to be written when the command ends
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_command_needs_no_standard_stream(emulator: Any, closed: str) -> None:
    shown = in_shell(emulator, f'exec "$@" {closed}', "ledger")

    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize(
    "argv",
    [
        ("state",),
        ("state", "--json"),
        ("ledger",),
        ("clock",),
        ("fault", "list"),
        ("proxy", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"),
        (),
    ],
)
def test_an_answer_that_cannot_be_written_is_a_failure_in_words(emulator: Any, argv: tuple[str, ...]) -> None:
    failed = in_shell(emulator, 'exec "$@" >/dev/full', *argv)

    assert failed.returncode == 1
    assert "No space left on device" in failed.stderr
    assert len(failed.stderr.splitlines()) <= 2


def test_an_answer_that_nobody_reads_to_its_end_is_no_matter_for_words(emulator: Any) -> None:
    ended = in_shell(emulator, '"$@" | true', "state")

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("name", [*COMMANDS, "fault", "fault call", "fault list", "fault clear", "fault link"])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        commands.main([*name.split(), "--help"])

    assert stopped.value.code == 0
    assert f"usage: jupyter tpu emulator {name}" in capsys.readouterr().out


def test_the_help_of_faults_explains_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands.main(["fault", "call", "--help"])

    shown = capsys.readouterr().out
    assert [kind for kind in KINDS if f"- {kind}: {KINDS[kind].meaning}" not in shown] == []
