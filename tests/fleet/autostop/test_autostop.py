"""Auto-stop on this machine: nodes end by their rules, judged by the emulator's ledger, with nobody else's help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jupyter_tpu.autostop import DEFAULT_RULES, KeepRunning, Moment, Rules
from jupyter_tpu.errors import BadInput, LinkDown
from jupyter_tpu.fleet.autostop.agent_poller import AgentReport, parse_report
from jupyter_tpu.fleet.autostop.autostop_settings import DEADLINE_LABEL, KEEP_DAMAGED, RULES_DAMAGED
from jupyter_tpu.fleet.autostop.controller import AutostopController, AutostopStatus
from jupyter_tpu.fleet.autostop.views import autostop_status_view
from jupyter_tpu.fleet.spend.enforcer import BudgetEnforcer
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.models import Node, NodeName

HOUR = 3600.0
BUSY = {"state": "active", "age_s": 0.0, "detail": "a cell of train.ipynb runs"}
QUIET = {"state": "quiet", "age_s": None, "detail": ""}


class NobodyThere:
    """No link was ever up."""

    async def call(self, _node: NodeName, _method: str, _params: Mapping[str, Any]) -> dict[str, Any] | None:
        return None

    def was_reached(self, _node: Node) -> bool:
        return False


class Saying:
    """An agent that says always the same, and remembers what it was told."""

    def __init__(self, **said: Any) -> None:
        self.told: list[Mapping[str, Any]] = []
        self.is_silent = False
        self.said = {
            "sources": {"execution": QUIET, "accelerator": QUIET, "human": QUIET},
            "has_rules": False,
            "revision": 0,
            "keep": {"for_s": None, "while_busy": False},
            "keep_revision": 0,
            "ready_for_s": None,
            "guard": {"state": "armed", "detail": "it ends the node"},
            **said,
        }

    async def call(self, _node: NodeName, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        if method == "set_brakes":
            self.told.append(params)
        return None if self.is_silent else self.said

    def was_reached(self, _node: Node) -> bool:
        return True


class Failing(NobodyThere):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def call(self, _node: NodeName, _method: str, _params: Mapping[str, Any]) -> dict[str, Any] | None:
        raise self._error


class Clocks:
    """Both clocks, some way ahead of the machine's."""

    def __init__(self) -> None:
        self.wall_s = self.steady_s = 0.0

    def __call__(self) -> Moment:
        return Moment(wall=time.time() + self.wall_s, steady=time.monotonic() + self.steady_s)


class Ready:
    """A READY node of a fleet with auto-stop."""

    def __init__(self, bench: Any, fleet: Any, journal: Journal, autostop: AutostopController, node: Node) -> None:
        self.bench, self.fleet, self.autostop, self.node = bench, fleet, autostop, node
        settings = bench.cloud.settings
        self.audit = Audit(journal, endpoint=settings.endpoint, project=settings.project)

    async def status(self) -> AutostopStatus:
        (found,) = await self.autostop.evaluate([self.node])
        return found

    async def is_ended(self) -> None:
        """By the ledger."""
        async with asyncio.timeout(120):
            while await asyncio.to_thread(self.bench.emulator.control.billing):  # noqa: ASYNC110 - it never calls
                await asyncio.sleep(0.05)

    async def noted(self, action: str) -> str:
        """The reason in the audit log."""
        async with asyncio.timeout(120):
            while True:
                for entry in await asyncio.to_thread(self.audit.newest):
                    if entry.action == action:
                        return entry.reason
                await asyncio.sleep(0.05)


@pytest.fixture
def make_ready(bench: Any) -> Any:
    async def make(agents: Any = None, clocks: Callable[[], Moment] | None = None, **spec: Any) -> Ready:
        options = {"read_clocks": clocks} if clocks else {}
        journal = bench.journal()
        autostop = AutostopController(bench.cloud, journal, agents, every_s=0.0, **options)
        fleet = await bench.fleet(BudgetEnforcer, lambda *_: autostop, journal=journal)
        intent = await fleet.wait((await fleet.create(bench.spec(**spec))).intent_id)
        assert intent.error is None
        node = (await fleet.refresh()).node(bench.name())
        return Ready(bench, fleet, journal, autostop, node)

    return make


async def test_a_node_in_a_state_that_nobody_knows_ends_by_its_rules(make_ready: Any) -> None:
    ready = await make_ready(NobodyThere())
    ready.bench.emulator.control.add_fault("ListNodes", "unknown_enum", times=None)
    await ready.fleet.refresh()
    await ready.autostop.set_rules(ready.node, {"session_s": 1.0, "action": "delete"})
    await ready.is_ended()
    assert "It reached the maximum session length of 1 s" in await ready.noted("delete")


async def test_a_node_to_which_nobody_ever_came_ends_by_the_idle_rule(make_ready: Any) -> None:
    ready = await make_ready(NobodyThere())
    await ready.autostop.set_rules(ready.node, {"idle_after_s": 1.0, "action": "delete"})
    await ready.is_ended()
    assert "It was idle for longer than 1 s" in await ready.noted("delete")


async def test_a_session_ends_a_node_of_which_nothing_is_known(make_ready: Any) -> None:
    ready = await make_ready()
    status = await ready.autostop.set_rules(ready.node, {"session_s": 1.0})
    assert status.verdict.verdict == "unknown"
    await ready.is_ended()
    assert "It reached the maximum session length of 1 s" in await ready.noted("stop")


async def test_a_deadline_on_the_node_itself_is_obeyed_by_any_server(make_ready: Any) -> None:
    ready = await make_ready(labels={DEADLINE_LABEL: str(int(time.time()) - 1)})
    await ready.is_ended()
    assert "deadline" in await ready.noted("stop")


async def test_a_busy_node_is_not_idle_however_long_nobody_has_typed(make_ready: Any) -> None:
    clocks = Clocks()
    agents = Saying(sources={"execution": BUSY, "accelerator": QUIET, "human": {**QUIET, "age_s": 5 * HOUR}})
    ready = await make_ready(agents, clocks)
    clocks.wall_s = clocks.steady_s = 5 * HOUR
    status = await ready.status()
    assert (status.verdict.verdict, status.verdict.ends_at, status.rules) == ("busy", None, DEFAULT_RULES)
    assert status.verdict.reason == "a cell of train.ipynb runs"


async def test_front_ends_are_told_when_a_node_becomes_idle(make_ready: Any, bench: Any) -> None:
    agents = Saying(sources={"execution": BUSY, "accelerator": QUIET, "human": QUIET})
    ready = await make_ready(agents)
    await ready.autostop.reconcile(ready.fleet, time.time())
    before = [change.kind for change in bench.changes].count("activity")
    agents.said["sources"] = {"execution": QUIET, "accelerator": QUIET, "human": QUIET}
    await bench.until(lambda: [change.kind for change in bench.changes].count("activity") > before)
    told = next(change for change in reversed(bench.changes) if change.kind == "activity")
    assert (told.node_name, told.state) == (str(ready.node.name), "READY")


async def test_a_silent_cell_with_idle_chips_and_nobody_connected_ends_its_node_announced_and_in_time(
    make_ready: Any,
) -> None:
    clocks = Clocks()
    silent = {**QUIET, "age_s": 1.9 * HOUR}
    sources = {"execution": BUSY, "accelerator": QUIET, "human": silent, "output": QUIET, "connection": QUIET}
    agents = Saying(sources=sources)
    ready = await make_ready(agents, clocks)
    clocks.wall_s = clocks.steady_s = 3 * HOUR
    announced = (await ready.status()).verdict
    assert (announced.verdict, announced.is_warning, announced.is_due) == ("busy", True, False)
    assert (await ready.autostop.set_rules(ready.node, {"unattended_after_s": None})).verdict.ends_at is None
    await ready.autostop.set_rules(ready.node, {"unattended_after_s": 1.85 * HOUR})
    await ready.is_ended()
    assert "It was idle for longer than 1 h 51 min: a cell of train.ipynb runs, but" in await ready.noted("stop")


async def test_auto_stop_of_a_stopped_node_names_nobody_who_holds_its_chips(make_ready: Any) -> None:
    holds = {"state": "active", "age_s": 0.0, "detail": "train.ipynb uses the chips and works"}
    ready = await make_ready(Saying(sources={"execution": BUSY, "accelerator": holds, "human": QUIET}))
    assert "train.ipynb" in str(autostop_status_view(await ready.status()))
    intent = await ready.fleet.wait((await ready.fleet.stop(ready.node.name)).intent_id)
    assert intent.error is None
    (stopped,) = await ready.autostop.evaluate([(await ready.fleet.refresh()).node(ready.node.name)])
    assert "train.ipynb" not in str(autostop_status_view(stopped))
    assert stopped.activity.accelerator.detail == "the node is STOPPED"


async def test_a_node_that_is_billed_for_a_day_without_a_human_act_says_so_with_its_cost(make_ready: Any) -> None:
    clocks = Clocks()
    ready = await make_ready(Saying(sources={"execution": BUSY, "accelerator": QUIET, "human": QUIET}), clocks)
    assert (await ready.status()).reminder is None
    clocks.wall_s = clocks.steady_s = 26 * HOUR
    async with asyncio.timeout(120):  # what it costs is written down in the background
        while (view := autostop_status_view(await ready.status())["reminder"])["usd"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (view["days"], view["usd"] > 0) == (1, True)
    assert "has been billed for 26 h without any known activity from you. Its cost so far is $" in view["text"]
    await ready.autostop.extend(ready.node, KeepRunning(until=clocks().wall + HOUR))
    for hours, days in ((26, None), (49, None), (51, 1)):
        clocks.wall_s = clocks.steady_s = hours * HOUR
        found = (await ready.status()).reminder
        assert (found and found.days) == days, "keeping it running is an act: the next reminder comes a day later"


async def test_the_guard_on_the_node_is_told_rules_keep_and_age(make_ready: Any) -> None:
    agents = Saying()
    ready = await make_ready(agents)
    await ready.autostop.set_rules(ready.node, {"session_s": 7200.0})
    await ready.autostop.extend(ready.node, KeepRunning(until=time.time() + HOUR))
    told: dict[str, Any] = {}
    for params in agents.told:
        told |= params
    lengths = {"idle_after_s": HOUR, "unattended_after_s": 2 * HOUR, "session_s": 7200.0}
    assert told["rules"] == {**lengths, "deadline_in_s": None, "action": "stop"}
    assert told["keep"] == {"for_s": pytest.approx(HOUR, abs=60), "while_busy": False}


async def test_a_clock_that_is_set_back_a_day_moves_no_end_outwards(make_ready: Any) -> None:
    clocks = Clocks()
    ready = await make_ready(None, clocks)
    before = (await ready.autostop.set_rules(ready.node, {"session_s": 8 * HOUR})).verdict
    left_s = before.ends_at - clocks().wall
    clocks.wall_s, clocks.steady_s = -86400.0, HOUR
    after = (await ready.status()).verdict
    assert after.ends_at - clocks().wall == pytest.approx(left_s - HOUR, abs=60)


async def test_a_clock_that_leaps_ahead_makes_no_node_idle_that_was_not_asked_since(make_ready: Any) -> None:
    clocks, lately = Clocks(), {"state": "quiet", "age_s": 60.0, "detail": ""}
    agents = Saying(sources=dict.fromkeys(("execution", "accelerator", "human"), lately))
    ready = await make_ready(agents, clocks)
    assert (await ready.status()).verdict.verdict == "idle"
    agents.is_silent, clocks.wall_s = True, 2 * HOUR
    leapt = await ready.status()
    assert leapt.activity.human.detail == "this computer's clock was changed since the node's last report"
    assert leapt.verdict.verdict == "unknown"
    agents.is_silent, clocks.steady_s = False, 60.0
    asked = await ready.status()
    assert asked.verdict.ends_at == pytest.approx(clocks().wall + HOUR - 60, abs=30)


async def test_a_report_that_is_older_than_half_a_minute_makes_no_node_idle(make_ready: Any) -> None:
    clocks, lately = Clocks(), {"state": "quiet", "age_s": 60.0, "detail": ""}
    agents = Saying(sources=dict.fromkeys(("execution", "accelerator", "human"), lately))
    ready = await make_ready(agents, clocks)
    assert (await ready.status()).verdict.verdict == "idle"
    agents.is_silent, clocks.wall_s, clocks.steady_s = True, 1200.0, 1200.0
    status = await ready.status()
    assert (status.verdict.verdict, status.verdict.ends_at) == ("unknown", None)
    assert status.activity.human.detail == "the node's last report is 20 min old"


async def test_nodes_that_others_have_made_have_no_rules(make_ready: Any, bench: Any) -> None:
    ready = await make_ready(NobodyThere())
    await bench.cloud.create_node(bench.spec("theirs"))
    async with asyncio.timeout(120):
        while (theirs := await bench.cloud.get_node(bench.name("theirs"))).state != "READY":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    (status,) = await ready.autostop.evaluate([theirs])
    assert (status.rules, status.verdict.ends_at, status.verdict.verdict) == (Rules(), None, "unknown")


@pytest.mark.parametrize(
    ("agents", "detail"),
    [
        (Failing(BadInput("The agent has no method 'activity'.")), "the agent on the node sent an invalid response"),
        (Failing(LinkDown("cut")), "no client has connected to the node yet"),
        (Saying(sources=7), "the agent on the node sent an invalid response"),
        (Saying(revision="new"), ""),
    ],
    ids=["older agent", "no answer", "nonsense", "nonsense in numbers"],
)
async def test_agents_that_do_not_answer_well_are_told_of(make_ready: Any, agents: Any, detail: str) -> None:
    view = autostop_status_view(await (await make_ready(agents)).status())
    assert next(source["detail"] for source in view["sources"]) == detail


@pytest.mark.parametrize("number", ["nan", "1e999", 1e300, -1e300, True, {}])
async def test_a_time_that_cannot_be_shown_makes_an_answer_invalid(number: Any) -> None:
    async def report_of(**said: Any) -> AgentReport:
        answer = await Saying(**said).call(None, "activity", {})  # type: ignore[arg-type]  # it is not used
        assert answer is not None
        return parse_report(answer, Moment(wall=0.0, steady=0.0))

    odd = {"state": "active", "age_s": number, "detail": ""}
    assert (await report_of()).activity is not None
    assert (await report_of(sources={"execution": odd, "accelerator": QUIET, "human": QUIET})).activity is None
    assert (await report_of(keep={"for_s": number, "while_busy": False})).activity is None
    assert (await report_of(keep_revision=number)).activity is None
    rules = Rules(session_s=HOUR).to_json()
    assert (await report_of(has_rules=True, rules=rules)).rules is not None
    assert (await report_of(has_rules=True, rules={**rules, "session_s": number})).rules is None
    assert (await report_of(has_rules=True, rules=rules, revision=number)).rules is None


async def test_a_spot_node_is_deleted_since_the_cloud_does_not_stop_it(make_ready: Any) -> None:
    ready = await make_ready(NobodyThere(), spot=True)
    status = await ready.status()
    assert (status.rules.action, status.rules.idle_after_s) == ("delete", 4 * HOUR)


async def phase_is(ready: Ready, verb: str, phase: str) -> None:
    """Until our open wish of that kind has come so far."""
    await ready.bench.until(
        lambda: any((each.verb, each.phase) == (verb, phase) for each in ready.fleet.snapshot().intents)
    )


async def test_a_node_that_boots_still_when_its_deadline_comes_is_stopped(make_ready: Any, bench: Any) -> None:
    ready = await make_ready(NobodyThere())
    await ready.fleet.wait((await ready.fleet.stop(ready.node.name)).intent_id)
    bench.emulator.control.add_fault("GetGuestAttributes", "permission_denied", times=None)
    started = await ready.fleet.start_node(ready.node.name)
    await phase_is(ready, "start", "booting")
    await ready.autostop.set_rules(ready.node, {"deadline_at": time.time() - 1})
    await ready.is_ended()
    assert "deadline" in await ready.noted("stop")
    assert (await ready.fleet.wait(started.intent_id)).settled


async def test_a_node_that_is_started_when_its_deadline_comes_is_deleted_before_it_is_billed(
    make_ready: Any, bench: Any
) -> None:
    control = bench.emulator.control
    ready = await make_ready(NobodyThere())
    await ready.fleet.wait((await ready.fleet.stop(ready.node.name)).intent_id)
    billed_s = control.ledger()["nodes"][0]["ready_seconds"]
    control.pause()
    await ready.fleet.start_node(ready.node.name)
    await phase_is(ready, "start", "starting")
    await ready.autostop.set_rules(ready.node, {"deadline_at": time.time() - 1, "action": "delete"})
    assert "deadline" in await ready.noted("delete")
    control.resume()
    await bench.until(lambda: ready.fleet.snapshot().node(ready.node.name) is None)
    assert control.ledger()["nodes"][0]["ready_seconds"] == billed_s


async def test_a_node_that_the_journal_has_lost_is_known_by_its_label_and_our_key(make_ready: Any, bench: Any) -> None:
    ready = await make_ready(NobodyThere())
    (bench.folder / "another").mkdir()
    with_another = Journal.open(bench.folder / "another")
    settings = {"agents": NobodyThere(), "every_s": 0.0}
    our_key = ready.node.metadata["ssh-keys"].partition(":")[2]
    known = AutostopController(bench.cloud, with_another, login_key=our_key, **settings)
    assert [status.rules for status in await known.evaluate([ready.node])] == [DEFAULT_RULES]
    for not_ours in ("ssh-ed25519 AAAA somebody", ""):  # without a key of ours, no node is ours
        unknown = AutostopController(bench.cloud, with_another, login_key=not_ours, **settings)
        assert [status.rules for status in await unknown.evaluate([ready.node])] == [Rules()]
    with_another.close()


async def test_rules_that_the_journal_has_lost_are_those_that_the_guard_goes_by(make_ready: Any) -> None:
    said = {"idle_after_s": 900.0, "session_s": 7200.0, "action": "delete"}
    agents = Saying(has_rules=True, rules=said, revision=5.0)
    ready = await make_ready(agents)
    assert (await ready.status()).rules == Rules(**said)
    status = await ready.autostop.set_rules(ready.node, {"session_s": 3600.0})
    assert status.rules == Rules(idle_after_s=900.0, session_s=3600.0, action="delete")


async def test_what_the_user_sets_wins_over_what_was_set_while_a_clock_was_days_ahead(make_ready: Any) -> None:
    said = {"idle_after_s": 900.0, "session_s": 7200.0, "action": "delete"}
    ahead = time.time() + 3 * 24 * HOUR
    agents = Saying(has_rules=True, rules=said, revision=ahead, keep_revision=ahead)
    ready = await make_ready(agents)
    assert (await ready.status()).rules == Rules(**said)
    status = await ready.autostop.set_rules(ready.node, {"session_s": 3600.0})
    assert status.rules.session_s == 3600.0
    status = await ready.autostop.extend(ready.node, KeepRunning(while_busy=True))
    assert status.keep.while_busy
    assert agents.told[-1]["rules"]["session_s"] == 3600.0
    assert ahead < agents.told[-1]["revision"] < agents.told[-1]["keep_revision"]


def write_rules(journal: Journal, bench: Any, node_id: str, kind: str, body: str) -> None:
    """As only damage, or another program, could have written it."""
    place = (bench.cloud.settings.endpoint, bench.cloud.settings.project)
    with journal.writing() as database:
        database.execute(
            "INSERT OR REPLACE INTO documents (endpoint, project, kind, name, body, updated_at)"
            " VALUES (?, ?, ?, ?, ?, 9)",
            (*place, kind, str(bench.name(node_id)), body),
        )


DAMAGED = {
    "rules that are no JSON": ("brakes", '{"session_s": 36', RULES_DAMAGED),
    "rules of a list": ("brakes", "[1]", RULES_DAMAGED),
    "rules with an absurd session": ("brakes", '{"session_s": -1, "action": "stop"}', RULES_DAMAGED),
    "rules with an unknown word": ("brakes", '{"idle_after_z": 60}', RULES_DAMAGED),
    "a wish that is no JSON": ("keep", "\u0000", KEEP_DAMAGED),
    "a wish without its half": ("keep", '{"uid": "UID", "until": 9e12}', KEEP_DAMAGED),
}


@pytest.mark.parametrize(("kind", "body", "words"), DAMAGED.values(), ids=DAMAGED)
async def test_rules_that_cannot_be_read_are_said_to_be_and_the_default_ones_hold(
    make_ready: Any, bench: Any, kind: str, body: str, words: str
) -> None:
    ready = await make_ready(NobodyThere())
    write_rules(bench.journal(), bench, "my-node", kind, body.replace("UID", ready.node.uid))
    status = await ready.status()
    assert (status.rules, status.keep.is_none) == (DEFAULT_RULES, True)
    assert status.verdict.reason.startswith(f"{words}; ")
    ruled = await ready.autostop.set_rules(ready.node, {"session_s": 7200.0})
    extended = await ready.autostop.extend(ruled.node, KeepRunning(while_busy=True))
    assert (extended.rules.session_s, extended.keep.while_busy) == (7200.0, True)
    assert "damaged" not in extended.verdict.reason


async def test_rules_that_cannot_be_read_leave_the_guard_with_those_that_it_was_told(
    make_ready: Any, bench: Any
) -> None:
    said = {"idle_after_s": 900.0, "session_s": None, "action": "delete"}
    agents = Saying(has_rules=True, rules=said, revision=5.0)
    ready = await make_ready(agents)
    write_rules(bench.journal(), bench, "my-node", "brakes", "damaged")
    assert (await ready.status()).rules == Rules(idle_after_s=900.0, action="delete")
    assert not any("rules" in params for params in agents.told)


async def test_rules_of_one_node_that_cannot_be_read_leave_those_of_the_others_at_work(
    make_ready: Any, bench: Any
) -> None:
    ready = await make_ready(NobodyThere())
    write_rules(bench.journal(), bench, "another", "brakes", "damaged")
    write_rules(bench.journal(), bench, "another", "keep", "damaged")
    await ready.autostop.set_rules(ready.node, {"session_s": 1.0})
    await ready.is_ended()
    assert "It reached the maximum session length of 1 s" in await ready.noted("stop")


async def test_a_stopped_node_is_deleted_at_a_deadline_that_deletes(make_ready: Any, bench: Any) -> None:
    ready = await make_ready(NobodyThere())
    await ready.fleet.wait((await ready.fleet.stop(ready.node.name)).intent_id)
    await ready.autostop.set_rules(ready.node, {"deadline_at": time.time() - 1, "action": "delete"})
    assert "deadline" in await ready.noted("delete")
    await bench.until(lambda: ready.fleet.snapshot().node(ready.node.name) is None)
