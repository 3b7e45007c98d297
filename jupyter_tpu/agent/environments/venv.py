"""The agent's own Python environment, and an environment for kernels if the worker's Python has no ipykernel.

uv builds the environments. An environment is valid once its marker is written, as long as its packages can be imported;
an incomplete or broken environment is rebuilt.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.agent.environments.uv import Report, can_run, find_uv, run, try_wheels_then_index
from jupyter_tpu.agent.lock import AGENT_NEEDS, KERNEL_NEEDS, SLICE_NEEDS, locked, requirements_file
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import EnvironmentFailed

_HAS_PYZMQ_AND_PSUTIL = "import zmq, psutil"
# This program only looks up the module. Importing ipykernel would be slow, and every reconnecting client would wait for
# it.
HAS_IPYKERNEL = "import importlib.util as u, sys; sys.exit(not (u.find_spec('ipykernel') and u.find_spec('zmq')))"


@dataclass(frozen=True)
class Environments:
    """The environments below a home folder; `report` is called with the progress."""

    home: Home
    report: Report

    def agent_python(self) -> str:
        """Return the agent's own Python. Users can't break it by changing their Python.

        If no package index is reachable, the worker's Python is used, provided it has the packages that the agent
        needs.

        Raises:
            EnvironmentFailed: neither Python can be used.
        """
        try:
            return self._environment("agent", sys.executable, AGENT_NEEDS, phase="agent", check=_HAS_PYZMQ_AND_PSUTIL)
        except EnvironmentFailed:
            if not all(importlib.util.find_spec(name) for name in ("zmq", "psutil")):
                raise
            self.report("agent", "The agent uses the worker's python3: its own environment could not be created", 0.5)
            return sys.executable

    def kernel_python(self, wanted: str) -> str:
        """Return the Python for kernels: `wanted` or, if it is empty, the worker's own Python.

        If that Python has no ipykernel, return the Python of a new environment that extends it.

        A virtual environment chosen by the user is neither changed nor replaced.

        Args:
            wanted: path or name of a Python on the worker; empty for the worker's own.

        Raises:
            EnvironmentFailed: there is no such Python, or ipykernel can't be installed.
        """
        python = _find_python(wanted) if wanted else sys.executable
        if _has_ipykernel(python):
            return python
        if wanted and _is_virtual(python):
            raise EnvironmentFailed(
                f"The Python {python} on the worker has no ipykernel.",
                hint=f"Install it there: {python} -m pip install ipykernel",
            )
        name = "kernel-" + hashlib.sha256(python.encode()).hexdigest()[:8]
        options = ("--system-site-packages",)
        made = self._environment(name, python, KERNEL_NEEDS, phase="kernel", check=HAS_IPYKERNEL, options=options)
        if _is_virtual(python):
            _share_packages(self.home.environments / name, sysconfig.get_path("purelib"))
        return made

    def slice_python(self, python: str, packages: str) -> str:
        """Return a Python with `SLICE_NEEDS`, installed in our own environment or in a new one that extends the user's.

        Args:
            python: a Python with ipykernel.
            packages: the folder of its packages.

        Raises:
            EnvironmentFailed: the packages can't be installed.
        """
        if Path(python).is_relative_to(self.home.environments):
            self._install(find_uv(self.home, "kernel", self.report), python, SLICE_NEEDS)
            return python
        name = "slice-" + hashlib.sha256(python.encode()).hexdigest()[:8]
        options = ("--system-site-packages",)
        made = self._environment(name, python, SLICE_NEEDS, phase="kernel", check=HAS_IPYKERNEL, options=options)
        if _is_virtual(python):
            _share_packages(self.home.environments / name, packages)
        return made

    def _environment(
        self, name: str, python: str, needs: Sequence[str], *, phase: str, check: str, options: Sequence[str] = ()
    ) -> str:
        folder = self.home.environments / name
        own_python = str(folder / "bin" / "python")
        marker, mark = folder / ".ready", "\n".join((python, *needs))
        # The marker records the Python and the requirements of the build. If either differs, rebuild the environment.
        if marker.is_file() and marker.read_text() == mark and can_run(own_python, check):
            return own_python
        uv = find_uv(self.home, phase, self.report)
        self.report(phase, f"Creating a Python environment for the {phase}", 0.3)
        # Delete a broken environment instead of repairing it, because its state is unknown.
        shutil.rmtree(folder, ignore_errors=True)
        run([uv, "venv", "--quiet", "--python", python, *options, str(folder)], "create a Python environment")
        self.report(phase, f"Installing {', '.join(needs)}", 0.5)
        self._install(uv, own_python, needs)
        # Write the marker last, so that an interrupted build does not count as complete.
        marker.write_text(mark)
        return own_python

    def _install(self, uv: str, python: str, needs: Sequence[str]) -> None:
        # The dependencies of `SLICE_NEEDS` are already installed, but possibly not in the versions of the lock.
        options = ["--no-deps"] if needs == SLICE_NEEDS else []
        with requirements_file(locked(needs)) as lock:
            argv = [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "--requirement", str(lock)]
            argv += options
            try_wheels_then_index(self.home, lambda options: run([*argv, *options], f"install {', '.join(needs)}"))


def _find_python(wanted: str) -> str:
    found = shutil.which(str(Path(wanted).expanduser()))
    if found is None:
        raise EnvironmentFailed(
            f"There is no Python {wanted!r} on the worker.", hint="Give a path on the worker, or leave the field empty."
        )
    return found


def _has_ipykernel(python: str) -> bool:
    # The running Python can be checked without a subprocess.
    if python == sys.executable:
        return importlib.util.find_spec("ipykernel") is not None
    return can_run(python, HAS_IPYKERNEL)


def _is_virtual(python: str) -> bool:
    return (Path(python).parent.parent / "pyvenv.cfg").is_file()


def _share_packages(environment: Path, packages: str) -> None:
    """Make the packages of a virtual environment visible in another virtual environment.

    venv's own option for system packages would share only the packages of the base Python.
    """
    for folder in environment.glob("lib/python*/site-packages"):
        (folder / "worker.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
