"""The demo's JupyterLab. It loads while the emulated cloud starts, and then waits for the cloud's address.

A line of JSON on standard input contains the environment variables with that address. If the input closes without a
line, the cloud failed to start, and JupyterLab is not run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# the layout at the first start, in the format of JupyterLab's workspaces; the panel gets a quarter of the window
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
    """Run JupyterLab with this program's arguments."""
    _load_extension()
    _show_the_panel_at_first(Path(os.environ["JUPYTERLAB_WORKSPACES_DIR"]))
    if line := sys.stdin.readline():
        os.environ.update(json.loads(line))
        _run_jupyterlab()


def _run_jupyterlab() -> None:
    from jupyterlab.labapp import LabApp

    server = LabApp.initialize_server(argv=sys.argv[1:])
    # Terminals open in the server's folder. Don't change the folder earlier, because relative paths in the arguments
    # refer to the user's folder.
    if Path(server.root_dir).is_absolute():
        os.chdir(server.root_dir)
    server.start()


def _load_extension() -> None:
    import jupyter_tpu
    import jupyter_tpu.cloud.google  # otherwise the first list of nodes would wait for this import

    jupyter_tpu._jupyter_server_extension_points()


def _show_the_panel_at_first(workspaces: Path) -> None:
    """Open the TPU panel on the first visit; later visits keep the user's layout."""
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    if not workspaces.exists():
        WorkspacesManager(str(workspaces)).save("default", json.dumps(_FIRST_VIEW))


if __name__ == "__main__":
    main()
