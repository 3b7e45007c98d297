"""``POST /api/kernels/ID/restart``: that of Jupyter Server interrupts the running cell before anybody knows whether a
restart is possible, and does not say why one has failed; this one asks first, and says it."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.services.kernels.handlers import KernelActionHandler
from jupyter_server.utils import ensure_async
from tornado import web

from jupyter_tpu.errors import TpuError
from jupyter_tpu.kernels.provisioner import TPUProvisioner


class RestartHandler(KernelActionHandler):
    """Stands before Jupyter Server's route for all kernels, and differs for those on nodes, in the body of an error."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str) -> None:
        kernels = self.kernel_manager
        provisioner = kernels.get_kernel(kernel_id).provisioner if kernel_id in kernels else None
        if isinstance(provisioner, TPUProvisioner):
            try:
                await provisioner.check_restart()
            except TpuError as error:
                raise web.HTTPError(error.status) from error
        await ensure_async(super().post(kernel_id, "restart"))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = getattr(kwargs.get("exc_info", (None, None))[1], "__cause__", None)
        if not isinstance(error, TpuError):
            super().write_error(status_code, **kwargs)
            return
        self.set_header("Content-Type", "application/json")
        self.set_status(error.status)
        words = f"The kernel was not restarted. {error}"
        self.finish(json.dumps({"message": words, "reason": error.message, "error": error.to_json()}))


RESTART_ROUTES = ((r"/api/kernels/(?P<kernel_id>\w+-\w+-\w+-\w+-\w+)/restart", RestartHandler),)
