"""A small client of the emulator's control API, for tests and the command line. Standard library only, blocking."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator.store.kept_files import TOKEN_FILE_VARIABLE

ADDRESS_VARIABLE = "JUPYTER_TPU_EMULATOR"
"""Environment variable with the REST address of the emulator that the commands mean."""

"""Environment variable with the file that holds the emulator's token, where it asks for one."""


def authorization(token_file: str | None = None) -> dict[str, str]:
    """The header that an emulator asks for; empty where no file is named. Raises OSError when it cannot be read."""
    path = os.environ.get(TOKEN_FILE_VARIABLE, "") if token_file is None else token_file
    return {"Authorization": f"Bearer {Path(path).read_text(encoding='ascii').strip()}"} if path else {}


class ControlRefused(Exception):
    """The emulator did not do it; the body that it answered says why."""

    @property
    def message(self) -> str:
        """The words in its error envelope."""
        try:
            return str(json.loads(str(self))["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return str(self)[:500]


class EmulatorControl:
    """`rest_url` is the emulator's REST address, such as ``http://127.0.0.1:8470``.

    `token_file` holds the token of an emulator that asks for one; by default that of the environment.
    """

    def __init__(self, rest_url: str, token_file: str | None = None) -> None:
        self._base = f"{rest_url.rstrip('/')}/emulator/v1"
        self._headers = {"Content-Type": "application/json", **authorization(token_file)}

    def info(self) -> dict[str, Any]:
        return self._ask("GET", "info")

    def state(self) -> dict[str, Any]:
        """All at once: project, clock, nodes, queued resources, faults, links, capacity, quotas, switches, ledger."""
        return self._ask("GET", "state")

    def behaviours(self) -> list[dict[str, str]]:
        """Each imitated behaviour with its standing: recorded, documented or assumed."""
        return list(self._ask("GET", "behaviours")["behaviours"])

    # -- money

    def ledger(self) -> dict[str, Any]:
        """``{"now", "total_usd", "total_nano_usd", "billing", "nodes": [{"name", "ready_seconds", "usd", …}]}``."""
        return self._ask("GET", "ledger")

    def billing(self) -> list[str]:
        """Names of the nodes that cost money now."""
        return [bill["name"] for bill in self.ledger()["nodes"] if bill["billing"]]

    # -- faults of calls

    def add_fault(self, method: str, kind: str, **fields: Any) -> int:
        """A scripted fault for the next calls of a method; see `api_faults.kinds`. Returns the number of the fault."""
        faults = self._ask("POST", "faults", {"method": method, "kind": kind, **fields})["faults"]
        return int(faults[-1]["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Faults that still wait for their call."""
        return list(self._ask("GET", "faults")["faults"])

    def clear_faults(self, number: int | None = None) -> None:
        """One of them, or all."""
        self._ask("DELETE", "faults" if number is None else f"faults?id={number}")

    # -- time

    def clock(self) -> dict[str, Any]:
        """``{"now": virtual seconds since the epoch, "scale": virtual seconds per real one, "paused"}``."""
        return self._ask("GET", "clock")

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return float(self.clock()["now"])

    def advance(self, seconds: float) -> None:
        """Jump ahead in virtual time; what falls due on the way has happened when this returns."""
        self._ask("POST", "clock", {"advance_s": seconds})

    def set_time_scale(self, scale: float) -> None:
        self._ask("POST", "clock", {"scale": scale})

    def pause(self) -> None:
        """Virtual time stands still but for `advance`."""
        self._ask("POST", "clock", {"paused": True})

    def resume(self) -> None:
        self._ask("POST", "clock", {"paused": False})

    # -- the rules of the project

    def project(self) -> dict[str, Any]:
        """The switches of the project."""
        return self._ask("GET", "project")

    def set_project(self, **switches: Any) -> dict[str, Any]:
        """Change switches such as ``api_enabled``, ``denied_permissions``, ``allowlist``; returns all of them."""
        return self._ask("POST", "project", switches)

    def quotas(self) -> list[dict[str, Any]]:
        """Those that are limited or used: ``{"quota_id", "zone" or "region", "limit", "used", "unit"}``."""
        return list(self._ask("GET", "quotas")["quotas"])

    def set_quota(self, quota_id: str, place: str, limit: int | None) -> None:
        """In a zone or region, as the quota counts; None for no limit."""
        scope = "region" if "PerRegion" in quota_id else "zone"
        self._ask("POST", "quotas", {"quota_id": quota_id, scope: place, "limit": limit})

    def capacity(self) -> list[dict[str, Any]]:
        """Pools of chips that somebody set."""
        return list(self._ask("GET", "capacity")["capacity"])

    def set_capacity(self, zone: str, family: str, chips: int | None, *, seed: int | None = None) -> None:
        """Chips of a generation in a zone (None: unlimited); with a seed, at random from 0 to that many."""
        self._ask("POST", "capacity", {"zone": zone, "family": family, "chips": chips, "seed": seed})

    def script_capacity(self, zone: str, family: str, steps: Sequence[tuple[float, int | None]]) -> None:
        """Steps of (virtual seconds from now, chips)."""
        self._ask("POST", "capacity", {"zone": zone, "family": family, "script": [list(step) for step in steps]})

    def stock_out(self, zone: str, family: str = "", *, chips: int = 0, for_s: float | None = None) -> None:
        """No capacity (or only so many chips) for a while or until it is set anew; ``for_s=0`` ends it."""
        self._ask("POST", "stockout", {"zone": zone, "family": family, "chips": chips, "for_s": for_s})

    def reservations(self) -> list[dict[str, Any]]:
        return list(self._ask("GET", "reservations")["reservations"])

    def reserve(self, reservation_id: str, zone: str, family: str, chips: int) -> None:
        """Make or change a reservation; 0 chips take it away."""
        asked = {"reservation_id": reservation_id, "zone": zone, "family": family, "chips": chips}
        self._ask("POST", "reservations", asked)

    # -- what takes nodes away

    def preempt(self, node: str, *, notice_s: float = 0.0) -> None:
        self._ask("POST", "preempt", {"node": node, "notice_s": notice_s})

    def maintenance(self) -> list[dict[str, Any]]:
        """What is planned or going on."""
        return list(self._ask("GET", "maintenance")["maintenance"])

    def announce_maintenance(self, node: str, kind: str = "SCHEDULED", in_s: float | None = None) -> None:
        """Without `in_s`, in seven days, or at once if it is UNSCHEDULED."""
        self._ask("POST", "maintenance", {"node": node, "kind": kind, "in_s": in_s})

    # -- workers and the links to them

    def workers(self, node: str) -> list[dict[str, str]]:
        """Home folder and process token of each worker of a node that is up."""
        return list(self._ask("GET", f"workers?node={urllib.parse.quote(node)}")["workers"])

    def close_ssh(self, node: str, worker_id: int = 0) -> None:
        """The worker's SSH server dies; its processes live on."""
        self._change(node, worker_id, "close_ssh")

    def open_ssh(self, node: str, worker_id: int = 0) -> None:
        self._change(node, worker_id, "open_ssh")

    def lay_down_metrics(self, node: str, worker_id: int | None = None, **metrics: Any) -> dict[str, Any]:
        """What the chips are to tell while a process has them; the names are those of `runtime_metrics.script`."""
        place = {"node": node} if worker_id is None else {"node": node, "worker_id": worker_id}
        return self._ask("POST", "metrics", {**place, **metrics})

    def links(self, node: str = "") -> list[dict[str, Any]]:
        """The links to the workers of a node, or of all: ``{"node", "worker_id", "port", "connections", "accepted",
        "round_trips", "faults"}``; `accepted` counts the connections that there have been.
        """
        return list(self._ask("GET", f"links?node={urllib.parse.quote(node)}")["links"])

    def fault_link(self, node: str, verb: str, worker_id: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Break the links to a node's workers, or to one; verbs as in `network_faults.verbs`, and `clear`."""
        asked = {"node": node, "verb": verb, "worker_id": worker_id, **fields}
        return list(self._ask("POST", "links", asked)["links"])

    def change_host_key(self, node: str, worker_id: int = 0) -> None:
        """The worker shows another host key than its guest attributes say."""
        self._change(node, worker_id, "change_host_key")

    def reset(self) -> None:
        """Back to an empty project."""
        self._ask("POST", "reset", {})

    def _change(self, node: str, worker_id: int, action: str) -> None:
        self._ask("POST", "workers", {"node": node, "worker_id": worker_id, "action": action})

    def _ask(self, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}/{path}", data=data, headers=self._headers, method=verb)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                raise ControlRefused(error.read().decode(errors="replace")) from None
