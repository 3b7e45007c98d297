"""Serve the front ends of widgets to VS Code under ``/nbextensions``, as the classic notebook did.

VS Code loads widgets from this path on the kernel's Jupyter server, but JupyterLab and Notebook 7 serve nothing there.
VS Code sends no token, neither from its own process nor from the notebook's page, so only the scripts of published
packages are served, and the packages can't be listed.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from jupyter_core.paths import jupyter_path
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import FileFindHandler

_NOT_HERE = "// This package has no front end on this server.\n"


class WidgetScript(FileFindHandler):
    """``nbextensions/{package}/{script}``: one script of a package's front end."""

    @allow_unauthenticated
    def get(self, path: str, include_body: bool = True) -> Coroutine[Any, Any, None]:
        """Return the script or, for a package that only the kernel has, an empty script instead of an error.

        A single 404 prevents VS Code from loading any other package.
        """
        if path.endswith("/extension.js") and not self.get_absolute_path(self.root, path):
            return self._write_empty_script()
        return super().get(path, include_body)

    async def _write_empty_script(self) -> None:
        self.set_header("Content-Type", "text/javascript")
        await self.finish(_NOT_HERE)


def widget_script_routes() -> list[tuple[str, type[FileFindHandler], dict[str, Any]]]:
    """Return the route: the path pattern under the server's base URL, the handler, and the handler's arguments."""
    files = {"path": jupyter_path("nbextensions"), "no_cache_paths": ["/"]}
    return [(r"/nbextensions/([\w@.-]+(?:/[\w@.-]+)+\.js)", WidgetScript, files)]
