"""The demo's folder, which contains all its state, separate from the user's own Jupyter.

::

    cloud/          the emulated cloud: its nodes and their disks
    jupyter/        Jupyter's data, config, runtime and our journal and key
    notebooks/      the root folder in JupyterLab
    *.log           messages of JupyterLab and the emulator from the last run
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.setup.example import NOTEBOOK, example_bytes

_MARKER = ".jupyter-tpu-demo.json"
# without this setting, JupyterLab would ask at its first start whether to fetch news, and check for updates on the
# network
_NO_NEWS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
# kernels of the demo use ipyparallel, which would also show its own panel
_NO_IPYPARALLEL_PANEL = {"disabledExtensions": {"ipyparallel-labextension": True}}


def default_folder() -> Path:
    """Return ``$XDG_DATA_HOME/jupyter-tpu-demo``, by default under ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "jupyter-tpu-demo"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The demo's folder at `root`; call `prepare` before use."""

    root: Path

    @property
    def cloud(self) -> Path:
        """Folder of the emulated cloud."""
        return self.root / "cloud"

    @property
    def notebooks(self) -> Path:
        """Folder that JupyterLab shows."""
        return self.root / "notebooks"

    @property
    def runtime(self) -> Path:
        """Jupyter's runtime folder."""
        return self.root / "jupyter" / "runtime"

    def log(self, name: str) -> Path:
        """Return the log file of one of the demo's processes."""
        return self.root / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for one demo.

        Raises:
            BadInput: another demo is using the folder, or it contains other files.
        """
        self._claim()
        with (self.root / _MARKER).open("a") as marker:
            try:
                # the operating system releases this lock whenever the process exits, even after a crash
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadInput(
                    Text("A demo is already running in {root}.", root=self.root),
                    hint="Stop it first, or choose another --dir.",
                ) from error
            yield

    def _claim(self) -> None:
        marker = self.root / _MARKER
        # never adopt a folder with other contents: --reset deletes everything in it
        if self.root.is_dir() and any(self.root.iterdir()) and not marker.exists():
            raise BadInput(
                Text("{root} is not empty and is not a demo folder.", root=self.root),
                hint="Choose a new or empty folder with --dir.",
            )
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch(mode=0o600)

    def reset(self) -> None:
        """Delete all data of earlier demos, including notebooks; call this while `locked`."""
        for path in self.root.iterdir():
            if path.name == _MARKER:
                # keep the marker file, because it is locked
                path.write_text("")
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def prepare(self) -> None:
        """Create folders and settings, and copy the example notebook unless the user has changed it."""
        for path in (self.cloud, self.notebooks, self.runtime):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # kernelspecs and kernels of the last run belong to a cloud on another port, so delete them; the server writes
        # new kernelspecs
        shutil.rmtree(self.root / "jupyter" / "data" / "kernels", ignore_errors=True)
        shutil.rmtree(self.root / "jupyter" / "tpu" / "kernels", ignore_errors=True)
        config = self.root / "jupyter" / "config"
        _write_json(config / "labconfig" / "default_setting_overrides.json", _NO_NEWS)
        _write_json(config / "labconfig" / "page_config.json", _NO_IPYPARALLEL_PANEL)
        _write_json(config / "jupyter_server_config.json", _server_config())
        self._put_notebook()

    def _put_notebook(self) -> None:
        # store the digests of the copied files, so that a newer version replaces only unchanged files
        shipped = example_bytes()
        target = self.notebooks / NOTEBOOK
        if target.exists() and _digest(target.read_bytes()) != self._remembered_digest():
            return
        target.write_bytes(shipped)
        (self.root / _MARKER).write_text(json.dumps({NOTEBOOK: _digest(shipped)}))

    def _remembered_digest(self) -> str:
        """Return the stored digest of the copied notebook, or an empty string if unknown."""
        try:
            return str(json.loads((self.root / _MARKER).read_bytes())[NOTEBOOK])
        except (ValueError, KeyError, TypeError):
            return ""

    def environment(self) -> Mapping[str, str]:
        """Return the demo's environment variables, without those of the emulated cloud (added once it is running)."""
        jupyter = self.root / "jupyter"
        return {
            **os.environ,
            # the demo may have been started by its full path; its terminals must find `jupyter tpu` too
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]),
            "JUPYTER_CONFIG_DIR": str(jupyter / "config"),
            "JUPYTER_DATA_DIR": str(jupyter / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(jupyter / "config" / "lab" / "user-settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(jupyter / "config" / "lab" / "workspaces"),
            "IPYTHONDIR": str(jupyter / "ipython"),
            "JUPYTER_TPU_DATA_DIR": str(jupyter / "tpu"),
        }


def _server_config() -> dict[str, object]:
    # Jupyter's default without a terminal is a login shell, in which Debian's /etc/profile resets PATH
    shell = [os.environ.get("SHELL") or shutil.which("bash") or "/bin/sh"]
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_tpu": True, "ipyparallel": False},
            "terminado_settings": {"shell_command": shell},
        },
        # shut down kernels with the demo, because its cloud stops too
        "TPUApp": {"keep_kernels": False},
    }


def _write_json(path: Path, data: object) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
