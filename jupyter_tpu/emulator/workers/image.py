"""The image of the emulated TPU VM: the Python and the tools on the PATH of an SSH session.

``full`` means an environment that is ready for use (the Python of the emulator, or any other); ``bare`` resembles the
real image: it has a Python with pip but without ipykernel, and it has no uv.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.emulator import on_worker

_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# variables that are passed on to a worker; a real worker has none of this computer's other variables
_PASSED_ON_PREFIXES = ("PIP_", "UV_")
_PASSED_ON = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "TZ",
    "JUPYTER_TPU_WORKER_LOCK",
]

# Runs in the bare Python at startup. `pip install --user` must work as on Ubuntu, so the environment is created with
# the system's packages, and this code removes them from the path again.
_HIDE_SYSTEM_PACKAGES = """\
import sys

sys.path[:] = [
    entry for entry in sys.path
    if entry.startswith((sys.prefix, {home!r})) or not entry.endswith(("site-packages", "dist-packages"))
    or "/.local/" in entry
]
"""

# Runs once in the bare Python to unpack pip from the wheel that Python includes. Installing that wheel with itself,
# like `venv`, takes ten times as long.
_UNPACK_PIP = """\
import ensurepip, sysconfig, zipfile
from pathlib import Path

folders = sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled"
wheels = [wheel for folder in folders if folder for wheel in Path(folder).glob("pip-*.whl")]
zipfile.ZipFile(wheels[0]).extractall(sysconfig.get_path("purelib"))
"""


class ImageBroken(Exception):
    """The image can't be built on this machine."""


@dataclass(frozen=True, slots=True)
class Image:
    """A folder of commands, which comes first on the workers' PATH."""

    commands: Path

    @property
    def path(self) -> str:
        """The environment variable PATH of a login session."""
        return f"{self.commands}:{_SYSTEM_PATH}"


def passed_on_settings() -> dict[str, str]:
    """Return the emulator's settings for proxies, certificates, pip and uv, which workers also need."""
    found = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    # share one cache, because each worker has a new home folder and would otherwise download every wheel again
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found.setdefault("UV_CACHE_DIR", str(cache / "uv"))
    found.setdefault("PIP_CACHE_DIR", str(cache / "pip"))
    return found


def make_full(folder: Path, python: Path) -> Image:
    """Create the image ``full``. It contains commands that run `python`, its pip, uv and ``emulated-tpu``."""
    commands = _fresh(folder / "bin-full")
    for name in ("python3", "python"):
        _write_command(commands / name, [str(python)])
    for name in ("pip", "pip3"):
        _write_command(commands / name, [str(python), "-m", "pip"])
    # prefer the uv next to this Python, which belongs to the same environment
    uv = shutil.which("uv", path=str(python.parent)) or shutil.which("uv")
    if uv:
        _write_command(commands / "uv", [uv])
    _add_tools(commands, python)
    return Image(commands)


def make_bare(folder: Path, python: Path) -> Image:
    """Build an image without uv, with a Python that has only pip."""
    commands = _fresh(folder / "bin-bare")
    bare = _bare_python(folder / "bare", python)
    for name in ("python3", "python"):
        _write_command(commands / name, [str(bare)])
    for name in ("pip", "pip3"):
        _write_command(commands / name, [str(bare), "-m", "pip"])
    _add_tools(commands, bare)
    return Image(commands)


def _add_tools(commands: Path, python: Path) -> None:
    """Add the tools that only an emulated worker has."""
    _write_command(commands / "emulated-tpu", [str(python), str(on_worker.FOLDER / "emulated_tpu.py")])


def _bare_python(folder: Path, python: Path) -> Path:
    """Build a virtual environment without packages, once per state folder; return its interpreter."""
    interpreter = folder / "bin" / "python3"
    if not interpreter.exists():
        # a venv created from a venv would include the outer venv's packages
        base = _ask(python, "import sys; print(sys._base_executable)")
        # see `_HIDE_SYSTEM_PACKAGES` for the option
        _run([base, "-m", "venv", "--system-site-packages", "--without-pip", str(folder)])
        _run([str(interpreter), "-c", _UNPACK_PIP])
        _hide_system_packages(interpreter, folder)
    return interpreter


def _hide_system_packages(interpreter: Path, folder: Path) -> None:
    packages = Path(_ask(interpreter, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    (packages / "sitecustomize.py").write_text(_HIDE_SYSTEM_PACKAGES.format(home=str(folder)), encoding="utf-8")


def _ask(python: Path, program: str) -> str:
    return _run([str(python), "-c", program]).strip()


def _run(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageBroken(f"{shlex.join(argv)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _write_command(path: Path, argv: Sequence[str]) -> None:
    path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
