"""Routes of the drives: Jupyter's contents API for the files of a node, and downloads.

They are not in rest-api.yml, because they follow https://jupyter-server.readthedocs.io/en/latest/developers/contents.html.
"""

from __future__ import annotations

import asyncio
import mimetypes
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from jupyter_server.auth.decorator import authorized
from jupyter_server.services.contents.handlers import (
    CheckpointsHandler,
    ContentsHandler,
    ModifyCheckpointsHandler,
    TrustNotebooksHandler,
)
from jupyter_server.utils import url_escape, url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_tpu.errors import Text, TpuError, WrongState
from jupyter_tpu.journal.paths import data_dir
from jupyter_tpu.kernels.agents.agent_calls import workers_of
from jupyter_tpu.kernels.connections.worker import WorkerKey
from jupyter_tpu.server.routes.metrics import ChipsRoute
from jupyter_tpu.transfer.files import PIECE_BYTES

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.node_files import NodeFiles
    from jupyter_tpu.server.files.drive_manager import NodeContentsManager


class DriveRoute(ChipsRoute):
    """Base class of the handlers: finds the node of the path, and its files."""

    auth_resource = "contents"  # who may not read files on this machine may not read them on a node either

    async def prepare(self) -> None:  # type: ignore[override]
        """Take zone and node from the path, because Jupyter's handlers expect only the path of the file."""
        self._zone = self.path_kwargs.pop("zone")
        self._node_id = self.path_kwargs.pop("node_id")
        self._key: WorkerKey | None = None
        await super().prepare()

    @cached_property
    def node_files(self) -> NodeFiles:
        """The files of the node."""
        from jupyter_tpu.kernels.connections.node_files import NodeFiles

        return NodeFiles(self.app.node_files, self._find)

    async def _find(self) -> WorkerKey:
        """Return the first worker of the node.

        Raises:
            NodeNotFound: there is no such node.
            WrongState: it is not READY.
        """
        if self._key is None:
            opened, node = await self.node(self._zone, self._node_id)
            if node.state != "READY":
                raise WrongState(
                    Text("The node {node} is {state}, not READY.", node=node.name.node_id, state=node.state),
                    hint="Start the node or wait until it is READY, then try again.",
                )
            self._key = (await asyncio.to_thread(workers_of, node, opened.settings.endpoint))[0]
        return self._key

    @cached_property
    def contents_manager(self) -> NodeContentsManager:
        """The node's files as a contents manager."""
        from jupyter_tpu.server.files.drive_manager import NodeContentsManager

        own = self.settings["contents_manager"]
        names = ("allow_hidden", "hide_globs", "untitled_notebook", "untitled_file", "untitled_directory", "notary")
        return NodeContentsManager(
            self.node_files,
            data_dir() / "checkpoints" / quote(self._zone, safe="") / quote(self._node_id, safe=""),
            log=self.log,
            **{name: getattr(own, name) for name in names},
        )

    def location_url(self, path: str) -> str:
        """Return the URL of a file."""
        node = f"{url_escape(self._zone)}/{url_escape(self._node_id)}"
        return url_path_join(self.base_url, "jupyter-tpu/v1/nodes", node, "contents", url_escape(path))


class NodeContentsHandler(DriveRoute, ContentsHandler):
    """``contents/{path}``: as ``api/contents/{path}``."""


class NodeCheckpointsHandler(DriveRoute, CheckpointsHandler):
    """``contents/{path}/checkpoints``."""


class NodeModifyCheckpointsHandler(DriveRoute, ModifyCheckpointsHandler):
    """``contents/{path}/checkpoints/{checkpoint_id}``."""


class NodeTrustHandler(DriveRoute, TrustNotebooksHandler):
    """``contents/{path}/trust``."""


class DownloadHandler(DriveRoute):
    """``files/{path}``: the bytes of a file, of any size."""

    @property
    def content_security_policy(self) -> str:
        """Confine scripts in a file to an origin of their own, as for ``/files``."""
        return super().content_security_policy + "; sandbox allow-scripts"

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Send the file."""
        from jupyter_tpu.server.files.drive_manager import http_errors, path_on_node

        self.check_xsrf_cookie()
        manager, place = self.contents_manager, path_on_node(path)
        if not manager.allow_hidden and await manager.is_hidden(path):
            raise web.HTTPError(404)
        with http_errors():
            info = await self.node_files.info(place)
            if info is None or info.kind != "file":
                raise web.HTTPError(404, f"No such file: {path}")
            file = await self.node_files.open_to_read(place)
        self._set_headers(path.rpartition("/")[2], info.size)
        try:
            offset = 0
            while offset < info.size:
                with http_errors():
                    data = await file.read(offset, min(PIECE_BYTES, info.size - offset))
                if not data:  # it became shorter: an error ends the connection, so that the download counts as failed
                    raise web.HTTPError(500, "The file changed while it was read")
                self.write(data)
                await self.flush()
                offset += len(data)
            await self.finish(set_content_type=self._headers["Content-Type"])
        except StreamClosedError:  # the browser has cancelled the download
            pass
        finally:
            with suppress(TpuError, OSError):
                await file.close()

    def _set_headers(self, name: str, size: int) -> None:
        kind, encoding = mimetypes.guess_type(name)
        self.set_header("Content-Type", "application/octet-stream" if encoding or not kind else kind)
        self.set_header("Content-Length", size)
        self.set_header("X-Content-Type-Options", "nosniff")
        if self.get_query_argument("download", ""):
            self.set_attachment_header(name)


_NODE = r"/jupyter-tpu/v1/nodes/(?P<zone>[^/]+)/(?P<node_id>[^/]+)"
_PATH = r"(?P<path>(?:(?:/[^/]+)+|/?))"

DRIVE_ROUTES: tuple[tuple[str, type[DriveRoute]], ...] = (
    (_NODE + "/contents" + _PATH + "/checkpoints", NodeCheckpointsHandler),
    (_NODE + "/contents" + _PATH + r"/checkpoints/(?P<checkpoint_id>[\w-]+)", NodeModifyCheckpointsHandler),
    (_NODE + "/contents" + _PATH + "/trust", NodeTrustHandler),
    (_NODE + "/contents" + _PATH, NodeContentsHandler),
    (_NODE + "/files/(?P<path>.+)", DownloadHandler),
)
"""The path pattern (under the server's base URL) and handler of each route."""
