"""A small, blocking client of the emulator's control API. It imports only the standard library."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator.store.state_dir import TOKEN_FILE_VARIABLE

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"
"""The environment variable with the REST address of the emulator that the commands use."""

"""Environment variable with the file that holds the emulator's token, where it requires one."""


def authorization(token_file: str | None = None) -> dict[str, str]:
    """Return the header with the token, or no header without a token file. Raises OSError for an unreadable file."""
    path = os.environ.get(TOKEN_FILE_VARIABLE, "") if token_file is None else token_file
    return {"Authorization": f"Bearer {Path(path).read_text(encoding='ascii').strip()}"} if path else {}


class ControlRefused(Exception):
    """The emulator rejected the request; the text is the body of its response."""

    @property
    def message(self) -> str:
        """The message in the response's error envelope."""
        try:
            return str(json.loads(str(self))["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return str(self)[:500]


class EmulatorControl:
    """A client of one emulator.

    Every method raises `ControlRefused`, or OSError if the emulator can't be reached. `rest_url` is its REST address,
    such as ``http://127.0.0.1:8470``. `token_file` is the file with the token, for an emulator that requires a token;
    by default, an environment variable names the file.
    """

    def __init__(self, rest_url: str, token_file: str | None = None) -> None:
        self._base = f"{rest_url.rstrip('/')}/emulator/v1"
        self._headers = {"Content-Type": "application/json", **authorization(token_file)}

    def info(self) -> dict[str, Any]:
        """Return the emulator's project, version, process id and clock."""
        return self._request("GET", "info")

    def state(self) -> dict[str, Any]:
        """Return the state: project, switches, clock, nodes, queued resources, faults, links, limits and ledger."""
        return self._request("GET", "state")

    def behaviours(self) -> list[dict[str, str]]:
        """Return each imitated behaviour with its evidence: recorded, documented or assumed."""
        return list(self._request("GET", "behaviours")["behaviours"])

    # -- money

    def ledger(self) -> dict[str, Any]:
        """Return the cost of all nodes: ``{"now", "total_usd", "total_nano_usd", "billing", "nodes"}``.

        Each of `nodes` is ``{"name", "ready_seconds", "usd", …}``.
        """
        return self._request("GET", "ledger")

    def billing(self) -> list[str]:
        """Return the names of the nodes that are being billed."""
        return [bill["name"] for bill in self.ledger()["nodes"] if bill["billing"]]

    # -- faults in API calls

    def add_fault(self, method: str, kind: str, **fields: Any) -> int:
        """Script a fault for the next calls to a method (see `api_faults.kinds`); return its number."""
        faults = self._request("POST", "faults", {"method": method, "kind": kind, **fields})["faults"]
        return int(faults[-1]["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults that are still waiting for a call."""
        return list(self._request("GET", "faults")["faults"])

    def clear_faults(self, number: int | None = None) -> None:
        """Remove one waiting fault, or all of them."""
        self._request("DELETE", "faults" if number is None else f"faults?id={number}")

    # -- time

    def clock(self) -> dict[str, Any]:
        """Return ``{"now": virtual seconds since the epoch, "scale": virtual seconds per real second, "paused"}``."""
        return self._request("GET", "clock")

    def now(self) -> float:
        """Return the virtual time in seconds since the epoch."""
        return float(self.clock()["now"])

    def advance(self, seconds: float) -> None:
        """Move virtual time ahead. Returns after all actions that became due have finished."""
        self._request("POST", "clock", {"advance_s": seconds})

    def set_time_scale(self, scale: float) -> None:
        """Set the virtual seconds per real second."""
        self._request("POST", "clock", {"scale": scale})

    def pause(self) -> None:
        """Stop virtual time, except for `advance`."""
        self._request("POST", "clock", {"paused": True})

    def resume(self) -> None:
        """Resume virtual time."""
        self._request("POST", "clock", {"paused": False})

    # -- rules for the project

    def project(self) -> dict[str, Any]:
        """Return the project's settings: permissions and limits."""
        return self._request("GET", "project")

    def set_project(self, **switches: Any) -> dict[str, Any]:
        """Change settings such as ``api_enabled``, ``denied_permissions``, ``allowlist``; return all settings."""
        return self._request("POST", "project", switches)

    def quotas(self) -> list[dict[str, Any]]:
        """Return the limited or used quotas: ``{"quota_id", "zone" or "region", "limit", "used", "unit"}``."""
        return list(self._request("GET", "quotas")["quotas"])

    def set_quota(self, quota_id: str, place: str, limit: int | None) -> None:
        """Limit a quota in its zone or region; None means no limit."""
        # the quota's ID shows its scope
        scope = "region" if "PerRegion" in quota_id else "zone"
        self._request("POST", "quotas", {"quota_id": quota_id, scope: place, "limit": limit})

    def capacity(self) -> list[dict[str, Any]]:
        """Return the pools of chips that have been configured."""
        return list(self._request("GET", "capacity")["capacity"])

    def set_capacity(self, zone: str, family: str, chips: int | None, *, seed: int | None = None) -> None:
        """Set how many chips of a generation a zone has (None: unlimited). With a seed, it varies from 0 to `chips`."""
        self._request("POST", "capacity", {"zone": zone, "family": family, "chips": chips, "seed": seed})

    def script_capacity(self, zone: str, family: str, steps: Sequence[tuple[float, int | None]]) -> None:
        """Schedule changes of the capacity; each step is (virtual seconds from now, number of chips)."""
        self._request("POST", "capacity", {"zone": zone, "family": family, "script": [list(step) for step in steps]})

    def stock_out(self, zone: str, family: str = "", *, chips: int = 0, for_s: float | None = None) -> None:
        """Reduce capacity to `chips` for `for_s` seconds or until it is set again; 0 s ends the stock-out."""
        self._request("POST", "stockout", {"zone": zone, "family": family, "chips": chips, "for_s": for_s})

    def reservations(self) -> list[dict[str, Any]]:
        """Return all reservations."""
        return list(self._request("GET", "reservations")["reservations"])

    def reserve(self, reservation_id: str, zone: str, family: str, chips: int) -> None:
        """Create or change a reservation; 0 chips delete it."""
        body = {"reservation_id": reservation_id, "zone": zone, "family": family, "chips": chips}
        self._request("POST", "reservations", body)

    # -- pre-emption and maintenance

    def preempt(self, node: str, *, notice_s: float = 0.0) -> None:
        """Preempt a node, immediately or with `notice_s` virtual seconds of notice."""
        self._request("POST", "preempt", {"node": node, "notice_s": notice_s})

    def maintenance(self) -> list[dict[str, Any]]:
        """Return planned and ongoing maintenance."""
        return list(self._request("GET", "maintenance")["maintenance"])

    def announce_maintenance(self, node: str, kind: str = "SCHEDULED", in_s: float | None = None) -> None:
        """Plan maintenance of a node in `in_s` virtual seconds.

        Without `in_s`, the maintenance begins in seven days, or immediately if it is UNSCHEDULED.
        """
        self._request("POST", "maintenance", {"node": node, "kind": kind, "in_s": in_s})

    # -- workers and the links to them

    def workers(self, node: str) -> list[dict[str, Any]]:
        """Return the home folder, process token and faults of each worker of a running node."""
        return list(self._request("GET", f"workers?node={urllib.parse.quote(node)}")["workers"])

    def close_ssh(self, node: str, worker_id: int = 0) -> None:
        """Stop a worker's SSH server; the worker's processes keep running."""
        self._change(node, worker_id, "close_ssh")

    def open_ssh(self, node: str, worker_id: int = 0) -> None:
        """Restart a worker's SSH server."""
        self._change(node, worker_id, "open_ssh")

    def fault_worker(self, node: str, verb: str, worker_id: int = 0, **fields: float) -> None:
        """Inject a fault into a worker; `verb` is a fault in `workers.worker_faults`, or `clear`."""
        self._change(node, worker_id, verb, **fields)

    def set_metrics(self, node: str, worker_id: int | None = None, **metrics: Any) -> dict[str, Any]:
        """Set the metrics that the chips report while a process uses them; see `runtime_metrics.metrics_script`."""
        place = {"node": node} if worker_id is None else {"node": node, "worker_id": worker_id}
        return self._request("POST", "metrics", {**place, **metrics})

    def links(self, node: str = "") -> list[dict[str, Any]]:
        """Return the links to the workers of one node or of all nodes.

        Each link is ``{"node", "worker_id", "port", "connections", "accepted", "round_trips", "faults"}``; `accepted`
        counts all connections since the proxy was started.
        """
        return list(self._request("GET", f"links?node={urllib.parse.quote(node)}")["links"])

    def fault_link(self, node: str, verb: str, worker_id: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Apply a network fault to one or all workers of a node; `verb` is from `network_faults.verbs`, or `clear`."""
        body = {"node": node, "verb": verb, "worker_id": worker_id, **fields}
        return list(self._request("POST", "links", body)["links"])

    def change_host_key(self, node: str, worker_id: int = 0) -> None:
        """Make the worker present a host key other than the one in its guest attributes."""
        self._change(node, worker_id, "change_host_key")

    def reset(self) -> None:
        """Delete everything in the project and reset its settings."""
        self._request("POST", "reset", {})

    def _change(self, node: str, worker_id: int, action: str, **fields: float) -> None:
        self._request("POST", "workers", {"node": node, "worker_id": worker_id, "action": action, **fields})

    def _request(self, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}/{path}", data=data, headers=self._headers, method=verb)
        # ignore proxies from the environment: the emulator is on loopback
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            # the timeout is longer than the longest time jump takes (`virtual_time.PATIENCE_S`)
            with opener.open(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                # raise from None, because the HTTP error would only repeat the message
                raise ControlRefused(error.read().decode(errors="replace")) from None
