"""JupyterLab of the demo: what it consists of is loaded while its cloud starts; then it is told where that is.

One line of JSON on standard input holds the environment variables that say so. Without a line there is no cloud, and
nothing is run.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Runs JupyterLab with this program's arguments."""
    from jupyterlab.labapp import main as run_jupyterlab

    _load_extension()
    if line := sys.stdin.readline():
        os.environ.update(json.loads(line))
        run_jupyterlab()


def _load_extension() -> None:
    import jupyter_tpu
    import jupyter_tpu.cloud.google  # which the extension loads when it asks for the first list of nodes

    jupyter_tpu._jupyter_server_extension_points()


if __name__ == "__main__":
    main()
