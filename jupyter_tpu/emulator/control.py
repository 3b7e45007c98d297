"""A small client of the emulator's control API, for tests and the command line. Standard library only, blocking."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


class ControlRefused(Exception):
    """The emulator did not do it; the message says why."""


class EmulatorControl:
    """`rest_url` is the emulator's REST address, such as ``http://127.0.0.1:8470``."""

    def __init__(self, rest_url: str) -> None:
        self._base = f"{rest_url.rstrip('/')}/emulator/v1"

    def info(self) -> dict[str, Any]:
        return self._ask("GET", "info")

    def behaviours(self) -> list[dict[str, str]]:
        """Each imitated behaviour with its standing: recorded, documented or assumed."""
        return list(self._ask("GET", "behaviours")["behaviours"])

    def ledger(self) -> dict[str, Any]:
        """``{"now", "total_usd", "nodes": [{"name", "ready_seconds", "usd", "usd_per_hour", "billing", …}]}``."""
        return self._ask("GET", "ledger")

    def billing(self) -> list[str]:
        """Names of the nodes that cost money now."""
        return [bill["name"] for bill in self.ledger()["nodes"] if bill["billing"]]

    def add_fault(self, method: str, kind: str, **fields: Any) -> None:
        """A scripted fault for the next call of a method; see `jupyter_tpu.emulator.faults` for the kinds."""
        self._ask("POST", "faults", {"method": method, "kind": kind, **fields})

    def faults(self) -> list[dict[str, Any]]:
        """Faults that still wait for their call."""
        return list(self._ask("GET", "faults")["faults"])

    def clear_faults(self) -> None:
        self._ask("DELETE", "faults")

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return float(self._ask("GET", "clock")["now"])

    def advance(self, seconds: float) -> None:
        """Jump ahead in virtual time."""
        self._ask("POST", "clock", {"advance_s": seconds})

    def set_time_scale(self, scale: float) -> None:
        self._ask("POST", "clock", {"scale": scale})

    def set_quota(self, quota_id: str, zone: str, limit: int) -> None:
        self._ask("POST", "quotas", {"quota_id": quota_id, "zone": zone, "limit": limit})

    def preempt(self, node: str) -> None:
        self._ask("POST", "preempt", {"node": node})

    def workers(self, node: str) -> list[dict[str, str]]:
        """Home folder and process token of each worker of a node that is up."""
        return list(self._ask("GET", f"workers?node={urllib.parse.quote(node)}")["workers"])

    def close_ssh(self, node: str, worker_id: int = 0) -> None:
        """The worker's SSH server dies; its processes live on."""
        self._change(node, worker_id, "close_ssh")

    def open_ssh(self, node: str, worker_id: int = 0) -> None:
        self._change(node, worker_id, "open_ssh")

    def links(self, node: str = "") -> list[dict[str, Any]]:
        """The links to the workers of a node, or of all: ``{"node", "worker_id", "port", "connections", "faults"}``."""
        return list(self._ask("GET", f"links?node={urllib.parse.quote(node)}")["links"])

    def fault_link(self, node: str, verb: str, worker_id: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Break the links to a node's workers, or to one; the verbs are those of `fault_proxy_verbs`, `clear` too."""
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
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._base}/{path}", data=data, headers=headers, method=verb)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                raise ControlRefused(error.read().decode(errors="replace")) from None
