"""The route for lost cells: cells that ran on a kernel whose node no longer exists, for the user to rerun."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.errors import OutputsNotFound
from jupyter_tpu.kernels.messages.execution_log import ExecutionLog, LoggedRun, LostRuns, runs_folder
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.server.routes.kernels import KernelHandler
from jupyter_tpu.server.routes.nodes import TpuHandler

_STATES = {"running": "cut"}  # in the API, a cell interrupted by the loss of the node is "cut"


class ReplayHandler(KernelHandler):
    """``kernels/{kernel_id}/replay``: the lost cells, for 30 days or until the user reruns or dismisses them."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Return the lost cells."""
        try:
            provisioner = self.provisioner_of(kernel_id)
        except OutputsNotFound:  # the kernel has been shut down, but its lost cells are still here
            lost = await asyncio.to_thread(_log_of(kernel_id).lost)
            if lost is None:
                raise
            end = _ended_view(lost)
        else:
            lost = await asyncio.to_thread(provisioner.lost_runs)
            end = await asyncio.to_thread(_end_view, provisioner)
        self.write_json({"kernel_id": kernel_id, **end, **replay_view(lost)})

    @web.authenticated
    @authorized
    async def delete(self, kernel_id: str) -> None:
        """Dismiss the lost cells."""
        try:
            settle = self.provisioner_of(kernel_id).settle_lost_runs
        except OutputsNotFound:
            ended = _log_of(kernel_id)
            if await asyncio.to_thread(ended.lost) is None:
                raise
            settle = ended.settle
        await asyncio.to_thread(settle)
        self.set_status(204)
        self.finish()


def _end_view(provisioner: TPUProvisioner) -> dict[str, Any]:
    """Return what happened to the kernel's node, and whether it will be recreated. Blocks on disk I/O."""
    end = provisioner.node_end
    return {
        "is_back": provisioner.link_state.state == "live",
        "end": end.to_json() if end else None,
        "recovery": provisioner.recovery_view(),
        "age_s": max(time.time() - end.at, 0.0) if end else None,
    }


def _ended_view(lost: LostRuns) -> dict[str, Any]:
    """Return what happened to the node of a kernel that this server no longer has.

    `lost` contains the runs that were lost with the node.
    """
    end = None if lost.has_successor else lost.end
    age_s = max(time.time() - lost.lost_at, 0.0) if end else None
    return {"is_back": False, "end": end, "recovery": None, "age_s": age_s}


def _log_of(kernel_id: str) -> ExecutionLog:
    return ExecutionLog(runs_folder(), kernel_id)


def replay_view(lost: LostRuns | None) -> dict[str, Any]:
    """Return the lost cells in the form of the REST API, without cells that the kernel had aborted.

    Args:
        lost: the lost cells; None if nothing was lost.
    """
    if lost is None:
        return {"lost_at": None, "reason": "", "lost_end": None, "earlier_at": None, "cells": []}
    cells = [_cell_view(order, run) for order, run in enumerate(lost.runs) if run.state != "aborted"]
    return {
        "lost_at": lost.lost_at,
        "reason": lost.reason,
        "lost_end": lost.end,
        "earlier_at": lost.earlier_at,
        "cells": cells,
    }


def _cell_view(order: int, run: LoggedRun) -> dict[str, Any]:
    return {
        "msg_id": run.msg_id,
        "cell_id": run.cell_id,
        "code": run.code,
        "is_whole": run.is_whole,
        "state": _STATES.get(run.state, run.state),
        "outputs": run.outputs,
        "order": order,
    }


REPLAY_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/kernels/(?P<kernel_id>[^/]+)/replay", ReplayHandler),
)
