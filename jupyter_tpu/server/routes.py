"""All routes of the extension."""

from __future__ import annotations

from jupyter_tpu.server.audit_handlers import AUDIT_ROUTES
from jupyter_tpu.server.brake_handlers import BRAKE_ROUTES
from jupyter_tpu.server.egress_handlers import EGRESS_ROUTES
from jupyter_tpu.server.getting_handlers import GETTING_ROUTES
from jupyter_tpu.server.grant_handlers import GRANT_ROUTES
from jupyter_tpu.server.handlers import NODE_ROUTES, TpuHandler
from jupyter_tpu.server.kernel_handlers import KERNEL_ROUTES
from jupyter_tpu.server.metrics_handlers import METRICS_ROUTES
from jupyter_tpu.server.money_handlers import MONEY_ROUTES
from jupyter_tpu.server.quota_handlers import QUOTA_ROUTES
from jupyter_tpu.server.recovery_handlers import RECOVERY_ROUTES
from jupyter_tpu.server.replay_handlers import REPLAY_ROUTES
from jupyter_tpu.server.sweep_handlers import SWEEP_ROUTES
from jupyter_tpu.server.switchboard import SWITCHBOARD_ROUTES as SWITCHBOARD_ROUTES

ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    *NODE_ROUTES,
    *KERNEL_ROUTES,
    *REPLAY_ROUTES,
    *GRANT_ROUTES,
    *EGRESS_ROUTES,
    *GETTING_ROUTES,
    *AUDIT_ROUTES,
    *BRAKE_ROUTES,
    *RECOVERY_ROUTES,
    *QUOTA_ROUTES,
    *SWEEP_ROUTES,
    *MONEY_ROUTES,
    *METRICS_ROUTES,
)
"""Path pattern (below the server's base URL) and handler; those of the switchboard exist only in a demo."""
