"""JupyterLab of the demo: what it consists of is loaded while its cloud starts; then it is told where that is.

One line of JSON on standard input holds the environment variables that say so. Without a line there is no cloud, and
nothing is run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# as JupyterLab keeps it itself; the panel gets a quarter of the window
_FIRST_VIEW = {
    "data": {
        "layout-restorer:data": {
            "main": {"dock": None, "current": None},
            "left": {"collapsed": False, "visible": True, "current": "jupyter-tpu-panel", "widgets": []},
            "relativeSizes": [0.25, 0.75, 0],
        }
    },
    "metadata": {"id": "default"},
}


def main() -> None:
    """Runs JupyterLab with this program's arguments."""
    _load_extension()
    _show_the_panel_at_first(Path(os.environ["JUPYTERLAB_WORKSPACES_DIR"]))
    if line := sys.stdin.readline():
        os.environ.update(json.loads(line))
        _run_jupyterlab()


def _run_jupyterlab() -> None:
    from jupyterlab.labapp import LabApp

    server = LabApp.initialize_server(argv=sys.argv[1:])
    # Terminals open where the server runs. Not sooner: until here, relative paths in the arguments are the user's own.
    if Path(server.root_dir).is_absolute():
        os.chdir(server.root_dir)
    server.start()


def _load_extension() -> None:
    import jupyter_tpu
    import jupyter_tpu.cloud.google  # which the extension loads when it asks for the first list of nodes

    jupyter_tpu._jupyter_server_extension_points()


def _show_the_panel_at_first(workspaces: Path) -> None:
    """The first visit finds the TPU panel open; later ones what the user left."""
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    if not workspaces.exists():
        WorkspacesManager(str(workspaces)).save("default", json.dumps(_FIRST_VIEW))


if __name__ == "__main__":
    main()
