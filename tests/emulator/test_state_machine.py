"""Users, the cloud, faults and the clock in any order: the cloud's books stay right.

1,000 examples: ``JUPYTER_TPU_EXAMPLES=1000 python -m pytest tests/emulator/test_state_machine.py --timeout=7200
--hypothesis-seed=0``.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from paper_emulator import PaperEmulator

from tests.emulator.state_model import (
    CALL_EDGES,
    GONE,
    IN_TIME,
    ON_THE_WAY,
    QUEUED_IN_TIME,
    Stopwatch,
    View,
    quota_use,
)

EXAMPLES = int(os.environ.get("JUPYTER_TPU_EXAMPLES", "12"))

PROJECT = "projects/demo-project/locations"
TYPES = {"us-central1-a": "v5litepod-8", "us-central2-b": "v4-8"}
VERSIONS = {"v5litepod-8": "v2-alpha-tpuv5-lite", "v4-8": "tpu-ubuntu2204-base"}
FAMILIES = {"us-central1-a": "v5e", "us-central2-b": "v4"}
UNITS = {"v5litepod-8": 8, "v4-8": 8}
QUOTAS = {
    ("v5litepod-8", False): "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI",
    ("v5litepod-8", True): "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI",
    ("v4-8", False): "TPUV4sPodPerProjectPerZoneForTPUAPI",
    ("v4-8", True): "TPUV4sPreemptiblePodPerProjectPerZoneForTPUAPI",
}
FAULTS = {
    "CreateNode": ("stockout", "operation_error", "stuck", "applied_then_drop", "drop", "error", "quota"),
    "StartNode": ("stockout", "operation_error", "stuck", "drop"),
    "StopNode": ("operation_error", "stuck", "applied_then_drop"),
    "DeleteNode": ("operation_error", "stuck", "applied_then_drop", "error"),
    "UpdateNode": ("operation_error", "stuck", "drop"),
    "CreateQueuedResource": ("operation_error", "stuck", "applied_then_drop", "error"),
    "DeleteQueuedResource": ("operation_error", "applied_then_drop", "drop"),
}
PAGES = {"nodes": 3, "queuedResources": 1, "operations": 100}
BOOKS = (("GET", "/emulator/v1/ledger", None), ("GET", "/emulator/v1/quotas", None))
A_DAY_S = 86_400
GENEROUS = 4096

zones = st.sampled_from(sorted(TYPES))
node_ids = st.sampled_from(["n1", "q1-0"])
queued_ids = st.just("q1")
seconds = st.sampled_from([1, 7, 31, 61, 95, 400, 7200])


Request = tuple[str, str, object]
"""Verb, path and body."""

Answer = tuple[int, dict[str, Any]]


class Api:
    """The REST face and the control API, over one connection that several requests may share at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 0))
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=120)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, verb: str, path: str, body: object = None) -> Answer:
        """Status and answer; status 0 when the connection broke instead."""
        try:
            return self.ask_all([(verb, path, body)])[0]
        except ConnectionError:
            self.close()
            self._connect()
            return 0, {}

    def ask_all(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers, in order; all requests are on their way before the first is read."""
        self._socket.sendall(b"".join(encoded(*request) for request in requests))
        return [self._read() for _ in requests]

    def _read(self) -> Answer:
        first = self._answers.readline()
        if not first:
            raise ConnectionResetError
        length = 0
        while (line := self._answers.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return int(first.split()[1]), json.loads(self._answers.read(length))

    def control(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        status, answer = self.ask(verb, f"/emulator/v1/{path}", body)
        assert status == 200, (path, body, answer)
        return answer

    def lists(self) -> dict[str, list[dict[str, Any]]]:
        """All pages of all lists."""
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in PAGES}
        tokens = dict.fromkeys(PAGES, "")
        while tokens:
            answers = self.ask_all([("GET", page_of(kind, token), None) for kind, token in tokens.items()])
            for kind, (status, answer) in zip(list(tokens), answers, strict=True):
                assert status == 200, answer
                found[kind] += answer.get(kind, [])
                tokens[kind] = answer.get("nextPageToken", "")
            tokens = {kind: token for kind, token in tokens.items() if token}
        return found


def page_of(kind: str, token: str) -> str:
    return f"/v2/{PROJECT}/-/{kind}?prettyPrint=false&pageSize={PAGES[kind]}&pageToken={token}"


def encoded(verb: str, path: str, body: object) -> bytes:
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent


class CloudMachine(RuleBasedStateMachine):
    """Calls of users, acts of the cloud, faults, jumps of the clock, and kill -9."""

    def __init__(self, emulator: PaperEmulator) -> None:
        super().__init__()
        self.emulator = emulator
        self.api = Api(emulator.rest)
        self.view = View()
        self.watch = Stopwatch()
        self.faults: dict[str, str] = {}
        self.stuck: set[str] = set()
        self.deleted: dict[str, int] = {}
        self.touched: set[str] | None = set()
        self.admitted: tuple[str, str] | None = None
        self.ledger: Answer = (0, {})
        self.quotas: Answer = (0, {})
        self.limits: dict[tuple[str, str], int] = {}
        self.now = 0.0

    @initialize()
    def empty(self) -> None:
        self.api.control("POST", "reset", {})
        self.api.control("POST", "clock", {"paused": True})
        self.api.control("POST", "project", {"creates_per_minute": None})
        self.now = self.api.control("GET", "clock")["now"]

    # -- users

    @rule(zone=zones, node_id=node_ids, is_spot=st.booleans())
    def create_node(self, zone: str, node_id: str, is_spot: bool) -> None:
        body = {"acceleratorType": TYPES[zone], "runtimeVersion": VERSIONS[TYPES[zone]]}
        body |= {"schedulingConfig": {"spot": True}} if is_spot else {}
        self.call("CreateNode", "POST", f"{PROJECT}/{zone}/nodes?nodeId={node_id}", body, f"nodes/{node_id}", is_spot)

    @rule(zone=zones, node_id=node_ids)
    def delete_node(self, zone: str, node_id: str) -> None:
        self.call("DeleteNode", "DELETE", f"{PROJECT}/{zone}/nodes/{node_id}", None)

    @rule(zone=zones, node_id=node_ids)
    def stop_node(self, zone: str, node_id: str) -> None:
        self.call("StopNode", "POST", f"{PROJECT}/{zone}/nodes/{node_id}:stop", {})

    @rule(zone=zones, node_id=node_ids)
    def start_node(self, zone: str, node_id: str) -> None:
        self.call("StartNode", "POST", f"{PROJECT}/{zone}/nodes/{node_id}:start", {})

    @rule(zone=zones, node_id=node_ids, value=st.sampled_from(["a", "b"]))
    def update_node(self, zone: str, node_id: str, value: str) -> None:
        body = {"labels": {"team": value}}
        self.call("UpdateNode", "PATCH", f"{PROJECT}/{zone}/nodes/{node_id}?updateMask=labels", body)

    @rule(zone=zones, queued_id=queued_ids, is_spot=st.booleans(), count=st.sampled_from([1, 2]))
    def create_queued_resource(self, zone: str, queued_id: str, is_spot: bool, count: int) -> None:
        node = {"acceleratorType": TYPES[zone], "runtimeVersion": VERSIONS[TYPES[zone]]}
        where = {"nodeId": f"{queued_id}-0"} if count == 1 else {"multisliceParams": {"nodeCount": count}}
        spec = {"parent": f"{PROJECT}/{zone}", "node": node, **where}
        body = {"tpu": {"nodeSpec": [spec]}, **({"spot": {}} if is_spot else {})}
        path = f"{PROJECT}/{zone}/queuedResources?queuedResourceId={queued_id}"
        self.call("CreateQueuedResource", "POST", path, body, f"queuedResources/{queued_id}", is_spot)

    @rule(zone=zones, queued_id=queued_ids, is_forced=st.booleans())
    def delete_queued_resource(self, zone: str, queued_id: str, is_forced: bool) -> None:
        path = f"{PROJECT}/{zone}/queuedResources/{queued_id}?force={is_forced}"
        self.call("DeleteQueuedResource", "DELETE", path, None)

    @rule(zone=zones, queued_id=queued_ids)
    def reset_queued_resource(self, zone: str, queued_id: str) -> None:
        self.call("ResetQueuedResource", "POST", f"{PROJECT}/{zone}/queuedResources/{queued_id}:reset", {})

    @precondition(lambda self: self.view.in_flight)
    @rule(index=st.integers(0, 9))
    def cancel(self, index: int) -> None:
        name = self.view.in_flight[index % len(self.view.in_flight)]
        self.stuck.discard(name)
        self.touch(self.view.operations[name]["metadata"]["target"])
        status, answer = self.api.ask("POST", f"/v2/{name}:cancel", {})
        assert (status, answer) == (200, {})

    # -- the cloud

    @precondition(lambda self: "READY" in self.view.states.values())
    @rule(index=st.integers(0, 9))
    def preempt(self, index: int) -> None:
        ready = sorted(name for name, state in self.view.states.items() if state == "READY")
        name = ready[index % len(ready)]
        self.watch.preempted(self.view.nodes[name]["id"], self.now)
        self.touch(name)
        self.api.control("POST", "preempt", {"node": name})

    @rule(zone=zones, chips=st.sampled_from([0, 8, 16, None]))
    def change_capacity(self, zone: str, chips: int | None) -> None:
        self.touched = None
        self.api.control("POST", "capacity", {"zone": zone, "family": FAMILIES[zone], "chips": chips})

    @rule(zone=zones, is_spot=st.booleans(), limit=st.sampled_from([0, 8, 16, 24]))
    def change_quota(self, zone: str, is_spot: bool, limit: int) -> None:
        quota_id = QUOTAS[TYPES[zone], is_spot]
        self.limits[quota_id, zone] = limit
        self.touched = set()
        self.api.control("POST", "quotas", {"quota_id": quota_id, "zone": zone, "limit": limit})

    # -- faults

    @rule(fault=st.sampled_from([(method, kind) for method, kinds in FAULTS.items() for kind in kinds]))
    def script_a_fault(self, fault: tuple[str, str]) -> None:
        method, kind = fault
        self.touched = set()
        if method not in self.faults:
            self.faults[method] = kind
            self.api.control("POST", "faults", {"method": method, "kind": kind, "code": "INTERNAL", "message": "no"})

    @rule()
    def kill_and_start_again(self) -> None:
        self.touched = set()
        self.api.close()
        self.emulator.start()
        self.api = Api(self.emulator.rest)
        self.faults.clear()

    # -- the clock

    @rule(jump=seconds)
    def advance(self, jump: int) -> None:
        self.touched = None
        self.now = self.api.control("POST", "clock", {"advance_s": jump})["now"]

    # -- what holds whatever happens

    @invariant()
    def the_books_are_right(self) -> None:
        before, self.view = self.view, self.look()
        self.watch.look(before, self.view, self.stuck)
        self.check_states(before)
        self.check_operations()
        self.check_ledger()
        self.check_quotas()

    def teardown(self) -> None:
        """In the end, everything ends."""
        self.api.control("DELETE", "faults")
        for zone, family in FAMILIES.items():
            self.api.control("POST", "capacity", {"zone": zone, "family": family, "chips": None})
        self.advance(A_DAY_S)
        self.the_books_are_right()
        assert set(self.view.in_flight) <= self.stuck
        assert not set(self.view.states.values()) & ON_THE_WAY
        assert set(self.view.queued_states.values()) <= {"ACTIVE", "SUSPENDED", "FAILED"}
        self.api.close()

    # -- how

    def call(
        self, method: str, verb: str, path: str, body: object, made: str = "", is_spot: bool | None = None
    ) -> None:
        """One call of a user; one that is refused changes nothing."""
        fault = self.faults.pop(method, "")
        target = path.partition("?")[0].partition(":")[0]
        name = f"{target.rpartition('/')[0]}/{made}" if made else target
        self.touch(name)
        status, answer = self.api.ask(verb, f"/v2/{path}", body)
        assert status in (0, 200, 400, 404, 409, 429, 500), answer
        if status == 200:
            self.accepted(method, name, answer, fault)
            zone = path.split("/")[3]
            self.admitted = None if is_spot is None else (QUOTAS[TYPES[zone], is_spot], zone)
        elif fault == "applied_then_drop":
            self.note_delete(method, name)
        else:
            self.touched = set()
            assert status or fault in ("drop", "applied_then_drop")
        if status >= 400 and fault:  # the fault waits on when the call was refused before it was met
            waiting = {each["method"] for each in self.api.control("GET", "faults")["faults"]}
            self.faults |= {method: fault} if method in waiting else {}

    def accepted(self, method: str, name: str, answer: dict[str, Any], fault: str) -> None:
        assert answer["metadata"]["target"] == name
        if fault == "stuck":
            self.stuck.add(answer["name"])
        self.note_delete(method, name)

    def note_delete(self, method: str, name: str) -> None:
        if method == "DeleteNode" and name in self.view.nodes:
            uid = self.view.nodes[name]["id"]
            self.deleted[uid] = self.watch.billed(uid, self.now)

    def touch(self, name: str) -> None:
        """The next view may differ in this, and in what belongs to it."""
        node = self.view.nodes.get(name, {})
        family = node.get("queuedResource", name)
        members = {each for each, its in self.view.nodes.items() if its.get("queuedResource") == family}
        self.touched = {name, family, *members}

    def look(self) -> View:
        """All that the API shows, and every resource alone as it is in the list."""
        lists = self.api.lists()
        for kind, shown in lists.items():
            names = [each["name"] for each in shown]
            assert len(set(names)) == len(names), kind
        alone = [*lists["nodes"], *lists["queuedResources"]]
        asked = [("GET", f"/v2/{each['name']}?prettyPrint=false", None) for each in alone]
        *answers, self.ledger, self.quotas = self.api.ask_all([*asked, *BOOKS])
        assert answers == [(200, each) for each in alone]
        nodes, queued, operations = ({each["name"]: each for each in shown} for shown in lists.values())
        return View(nodes, queued, operations)

    def check_states(self, before: View) -> None:
        pairs = [(before.states, self.view.states, IN_TIME if self.touched is None else CALL_EDGES)]
        pairs.append((before.queued_states, self.view.queued_states, QUEUED_IN_TIME))
        for old, new, edges in pairs:
            for name in old.keys() | new.keys():
                was, now = old.get(name, GONE), new.get(name, GONE)
                assert was == now or (was, now) in edges, (name, was, now)
                assert was == now or self.touched is None or name in self.touched, (name, was, now)

    def check_operations(self) -> None:
        """A resource that is on its way has an operation that is on its way, and none is done without an outcome."""
        targets = {self.view.operations[name]["metadata"]["target"] for name in self.view.in_flight}
        for name, node in self.view.nodes.items():
            family = node.get("queuedResource", "")
            assert node["state"] not in ON_THE_WAY or name in targets or family in targets, node
        for name, state in self.view.queued_states.items():
            assert state not in ("CREATING", "DELETING") or name in targets, (name, state)
        for operation in self.view.operations.values():
            assert operation["done"] == ("error" in operation or "response" in operation)

    def check_ledger(self) -> None:
        status, ledger = self.ledger
        assert status == 200
        assert ledger["now"] >= self.now
        self.now = ledger["now"]
        bills = {bill["uid"]: bill for bill in ledger["nodes"]}
        assert bills.keys() == self.watch.stretches.keys()
        for uid, bill in bills.items():
            assert abs(bill["ready_seconds"] - self.watch.billed(uid, self.now)) <= len(self.watch.stretches[uid]), bill
            assert bill["billing"] == self.watch.is_running(uid), bill
        ready = {node["id"] for node in self.view.nodes.values() if node["state"] == "READY"}
        assert {uid for uid in bills if self.watch.is_running(uid)} == ready
        for uid in self.deleted.keys() & ready:  # the deletion was cancelled, or failed
            del self.deleted[uid]
        for uid in self.deleted.keys() & bills.keys():
            assert abs(bills[uid]["ready_seconds"] - self.deleted[uid]) <= len(self.watch.stretches[uid]), bills[uid]

    def check_quotas(self) -> None:
        used = quota_use(self.view, UNITS, QUOTAS)
        told = {(each["quota_id"], each["zone"]): each["used"] for each in self.quotas[1]["quotas"] if each.get("zone")}
        assert {place: count for place, count in told.items() if count} == dict(used)
        assert self.admitted is None or used[self.admitted] <= self.limits.get(self.admitted, GENEROUS)
        self.admitted = None


@pytest.mark.shows(
    "billed-while-ready", "delete-stops-billing", "first-minute-free", "leftovers-count", "time-stands-still"
)
def test_no_order_of_events_breaks_the_books(paper_emulator: PaperEmulator) -> None:
    run_state_machine_as_test(
        lambda: CloudMachine(paper_emulator),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
