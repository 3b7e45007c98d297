"""The routes for a kernel on a node: its link and the outputs in its record."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from importlib.util import find_spec

from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_tpu.errors import OutputsNotFound
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.server.restore.kernel_outputs import joined, outputs_of
from jupyter_tpu.server.restore.request_listing import ListedRequest, list_requests
from jupyter_tpu.server.restore.request_text import text_of
from jupyter_tpu.server.routes.nodes import TpuHandler
from jupyter_tpu.server.websocket.kernel_socket import cursors_of


class KernelHandler(TpuHandler):
    """Base class of the handlers of one kernel."""

    # use Jupyter's own resource: a user without read access to kernels must not read their code and outputs here either
    auth_resource = "kernels"

    def provisioner_of(self, kernel_id: str) -> TPUProvisioner:
        """Return the provisioner of a kernel on a node.

        Raises:
            OutputsNotFound: there is no such kernel, or it is not running on a node.
        """
        kernels = self.kernel_manager
        died = TPUProvisioner.started.get(kernel_id)  # an exited kernel has a record, but isn't in Jupyter's list
        provisioner = kernels.get_kernel(kernel_id).provisioner if kernel_id in kernels else died
        if not isinstance(provisioner, TPUProvisioner):
            raise OutputsNotFound(
                "This kernel does not run on a Cloud TPU node.",
                hint="Use a kernel that runs on a node: outputs are recorded only for those kernels.",
            )
        return provisioner

    def compute_etag(self) -> None:
        """Return None, which disables ETags.

        No client requests the same outputs twice, and hashing megabytes would block the server.
        """

    async def send(self, piece: bytes) -> None:
        """Write a piece of the response and wait until the client has received it.

        Raises:
            web.Finish: the client closed the connection.
        """
        self.write(piece)
        try:
            await self.flush()
        except StreamClosedError:
            raise web.Finish from None


class KernelOutputsHandler(KernelHandler):
    """``kernels/{kernel_id}/outputs``: the outputs of the cells of a kernel's notebook."""

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Return the outputs in pieces."""
        provisioner, only = self.provisioner_of(kernel_id), self.get_arguments("msg_id")
        # without ipywidgets' front end, no page has Output widgets, so captured text must go into the cells
        pages_draw_widgets = find_spec("jupyterlab_widgets") is not None
        cursors = cursors_of(self.settings) if pages_draw_widgets else None
        pieces = await outputs_of(provisioner, kernel_id, only, cursors)
        self.set_header("Content-Type", "application/json")
        for piece in joined(pieces):
            await self.send(piece)
        self.finish()


class KernelLinkHandler(KernelHandler):
    """``kernels/{kernel_id}/link``: the state of the link to a kernel's worker; events report its changes."""

    auth_resource = "tpu"

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        """Return the state of the link."""
        self.write_json(asdict(self.provisioner_of(kernel_id).link_state))


class RequestTextHandler(KernelHandler):
    """``kernels/{kernel_id}/requests/{msg_id}/text``: the full text output of a request, as plain text."""

    @property
    def content_security_policy(self) -> str:
        """The server's policy plus a sandbox, because a kernel's output must never run as a page of the server."""
        return super().content_security_policy + "; sandbox"

    @web.authenticated
    @authorized
    async def get(self, kernel_id: str, msg_id: str) -> None:
        """Stream the text that the request has printed so far."""
        provisioner = self.provisioner_of(kernel_id)
        request = await _listed(provisioner, msg_id)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        if self.get_argument("download", ""):
            self.set_header("Content-Disposition", f'attachment; filename="output-{request.first_seq}.txt"')
        await self.flush()
        async with aclosing(text_of(provisioner, request)) as pieces:
            async for piece in pieces:
                await self.send(piece)
        self.finish()


async def _listed(provisioner: TPUProvisioner, msg_id: str) -> ListedRequest:
    for request in (await list_requests(provisioner)).requests:
        if request.msg_id == msg_id:
            return request
    raise OutputsNotFound(
        "The record does not contain this request.",
        hint="Choose a newer request: the record contains only the newest 2,000 requests.",
    )


_KERNEL = r"/jupyter-tpu/v1/kernels/(?P<kernel_id>[^/]+)"

KERNEL_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (_KERNEL + "/link", KernelLinkHandler),
    (_KERNEL + "/outputs", KernelOutputsHandler),
    (_KERNEL + r"/requests/(?P<msg_id>[^/]+)/text", RequestTextHandler),
)
"""The path pattern and handler of each route, as in `nodes.NODE_ROUTES`."""
