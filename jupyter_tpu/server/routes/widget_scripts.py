"""The front ends of widgets for VS Code, which looks for them beside the kernel's Jupyter server, where the classic
notebook's extensions were: JupyterLab and Notebook 7 serve none of these any more.

VS Code asks for them without a token, from its own process and from the page of the notebook, as it did of a classic
server. They are scripts of published packages; nothing but scripts is given out, and no list of what is there.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from jupyter_core.paths import jupyter_path
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import FileFindHandler

_NOT_HERE = "// This package has no front end on this server.\n"


class WidgetScript(FileFindHandler):
    """A script of a package's front end, in the folder that bears the package's name."""

    @allow_unauthenticated
    def get(self, path: str, include_body: bool = True) -> Coroutine[Any, Any, None]:
        """Packages of the kernel that this server lacks are no error: one would keep VS Code from all the others."""
        if path.endswith("/extension.js") and not self.get_absolute_path(self.root, path):
            return self._say_not_here()
        return super().get(path, include_body)

    async def _say_not_here(self) -> None:
        self.set_header("Content-Type", "text/javascript")
        await self.finish(_NOT_HERE)


def widget_script_routes() -> list[tuple[str, type[FileFindHandler], dict[str, Any]]]:
    """Path pattern (below the server's base URL), handler, and its arguments."""
    files = {"path": jupyter_path("nbextensions"), "no_cache_paths": ["/"]}
    return [(r"/nbextensions/([\w@.-]+(?:/[\w@.-]+)+\.js)", WidgetScript, files)]
