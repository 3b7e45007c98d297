"""The control API, ``/emulator/v1/…`` on the REST port, with which tests and the demo control the emulator."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from google.rpc import code_pb2

from jupyter_tpu import __version__
from jupyter_tpu.emulator.api_faults.faults import fault_from_json
from jupyter_tpu.emulator.control.limit_routes import ControlRules
from jupyter_tpu.emulator.control.node_names import node_named
from jupyter_tpu.emulator.control.state import faults_json, links_to, state_of
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.network_faults.verbs import link_fault_from_json
from jupyter_tpu.emulator.resources import errors, fields
from jupyter_tpu.emulator.resources.behaviours import behaviours
from jupyter_tpu.emulator.resources.protos import NodePb
from jupyter_tpu.emulator.runtime_metrics.metrics_script import CHECKS, Script, write_script
from jupyter_tpu.emulator.store.ledger import ledger_json
from jupyter_tpu.emulator.store.schema import DiskFull
from jupyter_tpu.emulator.transport.json_answers import refused
from jupyter_tpu.emulator.transport.json_text import json_object
from jupyter_tpu.emulator.workers.cut_connections import CannotCut
from jupyter_tpu.emulator.workers.machine import Machine
from jupyter_tpu.emulator.workers.services import chips_folder
from jupyter_tpu.emulator.workers.worker_faults import FIELDS, MEANINGS

BASE = "/emulator/v1"

_CLOCK: Mapping[str, fields.Check] = {
    "scale": fields.scale,
    "advance_s": fields.positive,
    "paused": fields.flag,
    "settle": fields.flag,  # accepted and ignored: a jump always waits for all due actions
}
_METRICS: Mapping[str, fields.Check] = {"node": fields.text, "worker_id": fields.whole, **CHECKS}
_WORKER: Mapping[str, fields.Check] = {
    "node": fields.text,
    "worker_id": fields.whole,
    "action": fields.text,
    **{name: check for needed in FIELDS.values() for name, check in needed.items()},
}
_ACTIONS = ("close_ssh", "open_ssh", "change_host_key", *MEANINGS)

Answer = Callable[[web.Request], Awaitable[Any]]


class ControlRoutes:
    """The route handlers of the control API, one method per route. Each method returns the JSON that is sent."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def add_to(self, app: web.Application) -> None:
        """Add the routes to a server."""
        rules = ControlRules(self._cloud)
        for verb, path, answer in (
            ("GET", "info", self.info),
            ("GET", "state", self.state),
            ("GET", "behaviours", self.behaviours),
            ("GET", "ledger", self.ledger),
            ("GET", "faults", self.faults),
            ("POST", "faults", self.add_fault),
            ("DELETE", "faults", self.clear_faults),
            ("GET", "clock", self.clock),
            ("POST", "clock", self.set_clock),
            ("GET", "project", rules.project),
            ("POST", "project", rules.change_project),
            ("GET", "quotas", rules.quotas),
            ("POST", "quotas", rules.set_quota),
            ("GET", "capacity", rules.capacity),
            ("POST", "capacity", rules.set_capacity),
            ("POST", "stockout", rules.stock_out),
            ("POST", "preempt", rules.preempt),
            ("GET", "maintenance", rules.maintenance),
            ("POST", "maintenance", rules.announce_maintenance),
            ("GET", "reservations", rules.reservations),
            ("POST", "reservations", rules.set_reservation),
            ("GET", "workers", self.workers),
            ("POST", "workers", self.change_worker),
            ("POST", "metrics", self.set_metrics),
            ("GET", "links", self.links),
            ("POST", "links", self.fault_link),
            ("POST", "reset", self.reset),
        ):
            # every route uses the same error format
            app.router.add_route(verb, f"{BASE}/{path}", _handler(answer))

    async def info(self, _: web.Request) -> Any:
        """Return the emulator's project, version, process id and clock."""
        return {"project": self._cloud.project, "version": __version__, "pid": os.getpid(), **self._time()}

    async def state(self, _: web.Request) -> Any:
        """Return the whole state of the cloud."""
        return state_of(self._cloud)

    async def behaviours(self, _: web.Request) -> Any:
        """Return the imitated behaviours with their evidence."""
        return {"behaviours": [each.to_json() for each in behaviours()]}

    async def ledger(self, _: web.Request) -> Any:
        """Return the cost of all nodes."""
        now = self._cloud.store_now()
        return ledger_json(self._cloud.ledger.bills(now), now)

    async def faults(self, _: web.Request) -> Any:
        """Return the faults that are waiting for a call."""
        return {"faults": faults_json(self._cloud)}

    async def add_fault(self, request: web.Request) -> Any:
        """Add a scripted fault; return all faults that are waiting for a call."""
        fault = fault_from_json(await json_object(request), self._cloud.methods)
        self._cloud.scripted.table.add(fault)
        return await self.faults(request)

    async def clear_faults(self, request: web.Request) -> Any:
        """Remove all faults, or only the fault whose id is in the query (``?id=3``)."""
        table, number = self._cloud.scripted.table, request.query.get("id")
        if number is None:
            table.clear()
        elif not table.remove(fields.number(number)):
            raise errors.not_found(f"fault {number}")
        return await self.faults(request)

    async def clock(self, _: web.Request) -> Any:
        """Return the virtual time."""
        return self._time()

    async def set_clock(self, request: web.Request) -> Any:
        """Change the scale of virtual time, pause or resume it, or move it ahead."""
        settings = fields.checked(await json_object(request), _CLOCK)
        # set the pace first, so that a jump in the same request uses it
        self._cloud.time.run(scale=settings.get("scale"), is_paused=settings.get("paused"))
        if "advance_s" in settings:
            await self._cloud.time.jump(settings["advance_s"])
        return self._time()

    async def workers(self, request: web.Request) -> Any:
        """Return the folders and process tokens of a node's workers on this machine."""
        node = node_named(self._cloud.store, request.query["node"])
        machines = [self._cloud.workers.machine(node, index) for index in range(len(node.network_endpoints))]
        faults = self._cloud.workers.faults
        return {
            "workers": [{"home": str(each.home), "token": each.token, "faults": faults.of(each)} for each in machines]
        }

    async def change_worker(self, request: web.Request) -> Any:
        """Change one worker: its SSH server, or a fault from `worker_faults`."""
        settings = fields.checked(await json_object(request), _WORKER, required=("node", "action"))
        # most nodes have only worker 0
        name, worker_id, action = settings.pop("node"), settings.pop("worker_id", 0), settings.pop("action")
        if action not in _ACTIONS:
            raise ValueError(f"action: {action[:40]!r} is not one of {', '.join(_ACTIONS)}")
        needed = FIELDS.get(action, {})
        fields.checked(settings, needed, required=needed)
        await self._break_worker(node_named(self._cloud.store, name), worker_id, action, **settings)
        return {}

    async def _break_worker(self, node: NodePb, worker_id: int, action: str, **settings: Any) -> None:
        workers = self._cloud.workers
        ssh = {
            "close_ssh": workers.stop_ssh,
            "open_ssh": workers.restart_ssh,
            "change_host_key": workers.change_host_key,
        }
        if action in ssh:
            await ssh[action](node, worker_id)
            return
        machine = workers.machine(node, worker_id)
        match action:
            case "kill":
                await workers.faults.kill(machine)
            case "slow":
                await workers.faults.slow(machine, settings["factor"])
            case "freeze":
                await workers.faults.freeze(machine)
            case "clock":
                await workers.faults.set_clock(machine, settings["ahead_s"])
            case "cut":
                await self._cut(machine, workers.machine(node, settings["other_worker_id"]))
            case "clear":
                await workers.faults.clear(machine.token)

    async def _cut(self, machine: Machine, other: Machine) -> None:
        if machine is other:
            raise ValueError("other_worker_id: must differ from worker_id")
        try:
            await self._cloud.workers.faults.cut(machine, other)
        except CannotCut as error:
            raise errors.Refusal(errors.status_of(code_pb2.FAILED_PRECONDITION, str(error))) from error

    async def set_metrics(self, request: web.Request) -> Any:
        """Set the chip metrics that workers of a node report. If none are given, workers report measured values."""
        settings = fields.checked(await json_object(request), _METRICS, required=("node",))
        node, worker_id = node_named(self._cloud.store, settings.pop("node")), settings.pop("worker_id", None)
        workers = range(len(node.network_endpoints)) if worker_id is None else [worker_id]
        machines = [self._cloud.workers.machine(node, index) for index in workers]
        for machine in machines:
            write_script(chips_folder(machine.folder), Script(**settings) if settings else None)
        return {"node": node.name, "workers": [machine.worker_id for machine in machines], "laid_down": bool(settings)}

    async def links(self, request: web.Request) -> Any:
        """Return the fault proxies in front of the workers of a node or of all nodes."""
        return {"links": [link.to_json() for link in links_to(self._cloud, request.query.get("node", ""))]}

    async def fault_link(self, request: web.Request) -> Any:
        """Break the links to one or all workers of a node."""
        settings = await json_object(request)
        node, worker_id = fields.text(settings.pop("node")), settings.pop("worker_id", None)
        fault = link_fault_from_json(settings)
        # select one worker or all workers; for an unknown worker, the list is empty, which is rejected below
        links = [link for link in links_to(self._cloud, node) if worker_id in (None, link.worker_id)]
        if not links:
            raise self._no_link(node, worker_id)
        for link in links:
            link.proxy.apply(fault)
        return {"links": [link.to_json() for link in links]}

    def _no_link(self, name: str, worker_id: object) -> errors.Refusal:
        """Return the reason why the node has no link; raises `Refusal` if the node does not exist."""
        node = node_named(self._cloud.store, name)
        if not links_to(self._cloud, name):
            reason = "has no link that can be broken: it is not up, or the emulator was started without --link-faults"
        else:
            reason = f"has no worker {worker_id!r}"
        return errors.Refusal(errors.status_of(code_pb2.NOT_FOUND, f"The node {node.name} {reason}"))

    async def reset(self, request: web.Request) -> Any:
        """Delete everything in the project and reset its settings."""
        fields.checked(await json_object(request), {})
        await self._cloud.reset()
        return {}

    def _time(self) -> dict[str, Any]:
        return {**self._cloud.time.to_json(), "now": self._cloud.store_now()}


def _handler(answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return web.json_response(await answer(request))
        except errors.Refusal as refusal:
            return refused(refusal.status)
        except DiskFull as error:
            return refused(errors.status_of(code_pb2.UNAVAILABLE, f"Not done: {error}; free some space and try again."))
        # the value parsers raise this with the name of the field
        except KeyError as error:
            return _bad_request(f"{error.args[0]} is missing or unknown")
        except (TypeError, ValueError) as error:
            return _bad_request(str(error))

    return handle


def _bad_request(message: str) -> web.Response:
    return refused(errors.status_of(code_pb2.INVALID_ARGUMENT, message))
