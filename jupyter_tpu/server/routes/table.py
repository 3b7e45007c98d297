"""All routes of the extension, including the old paths of renamed routes."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_tpu.server.routes.audit import AUDIT_ROUTES
from jupyter_tpu.server.routes.autostop import AUTOSTOP_ROUTES
from jupyter_tpu.server.routes.capacity import CAPACITY_ROUTES
from jupyter_tpu.server.routes.cleanup import CLEANUP_ROUTES
from jupyter_tpu.server.routes.egress import EGRESS_ROUTES
from jupyter_tpu.server.routes.failure_simulator import SIMULATOR_ROUTES
from jupyter_tpu.server.routes.grants import GRANT_ROUTES
from jupyter_tpu.server.routes.kernels import KERNEL_ROUTES
from jupyter_tpu.server.routes.metrics import METRICS_ROUTES
from jupyter_tpu.server.routes.nodes import NODE_ROUTES, TpuHandler
from jupyter_tpu.server.routes.ports import PORT_ROUTES
from jupyter_tpu.server.routes.quota import QUOTA_ROUTES
from jupyter_tpu.server.routes.recovery import RECOVERY_ROUTES
from jupyter_tpu.server.routes.replay import REPLAY_ROUTES
from jupyter_tpu.server.routes.setup import SETUP_ROUTES
from jupyter_tpu.server.routes.spend import SPEND_ROUTES
from jupyter_tpu.server.routes.terminals import TERMINAL_ROUTES

ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    *NODE_ROUTES,
    *KERNEL_ROUTES,
    *REPLAY_ROUTES,
    *GRANT_ROUTES,
    *EGRESS_ROUTES,
    *CAPACITY_ROUTES,
    *AUDIT_ROUTES,
    *AUTOSTOP_ROUTES,
    *RECOVERY_ROUTES,
    *QUOTA_ROUTES,
    *CLEANUP_ROUTES,
    *SPEND_ROUTES,
    *METRICS_ROUTES,
    *PORT_ROUTES,
    *SETUP_ROUTES,
    *SIMULATOR_ROUTES,
    *TERMINAL_ROUTES,
)
"""The path pattern (under the server's base URL) and handler of each route."""

# current ending of a path → former ending
_RENAMED: Mapping[str, str] = {
    "/autostop": "/brakes",
    "/autostop/history": "/brakes/past",
    "/cleanup": "/sweep",
    "/extend": "/keep",
    "/release": "/free",
    "/stop-all": "/panic",
}

OLD_ROUTES: tuple[tuple[str, type[TpuHandler], dict[str, str]], ...] = tuple(
    (pattern.removesuffix(now) + old, handler, {"renamed_to": now})
    for pattern, handler in ROUTES
    for now, old in _RENAMED.items()
    if pattern.endswith(now)
)
"""Old paths of renamed routes. They work for one more minor version; their responses have a deprecation header."""
