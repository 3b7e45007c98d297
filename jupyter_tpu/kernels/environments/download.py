"""Downloads on this machine what a worker without a package index needs for an environment: wheels, and a Python.

uv chooses the versions for the worker's Python and platform, and pip, which uv brings, downloads them; what was
downloaded before is not downloaded again. Blocks for as long as that takes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_tpu.agent.lock import AGENT_NEEDS, KERNEL_NEEDS, UV, lock_text, requirements_file
from jupyter_tpu.errors import BadInput, EnvironmentFailed
from jupyter_tpu.frameworks import Release
from jupyter_tpu.journal.paths import data_dir

# The C libraries that wheels are built for, oldest last; TPU VM images have 2.35 (Ubuntu 22.04).
_GLIBC = ("2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlatform:
    """What wheels must fit: the worker's Python, such as ``3.10``, and its kind of processor."""

    python: str
    machine: str
    has_uv: bool

    def __post_init__(self) -> None:
        if self.machine not in _MACHINES or not all(part.isdigit() for part in self.python.split(".")):
            raise EnvironmentFailed(f"No wheels are known for Python {self.python[:20]!r} on {self.machine[:20]!r}.")

    @property
    def python_version(self) -> tuple[int, int]:
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Requirements for one Python, and for people what they are for."""

    title: str
    lines: tuple[str, ...]


def wanted_by_agent(platform: WorkerPlatform) -> Wanted:
    """What the agent and the kernels outside of environments need on the worker's own Python."""
    uv = () if platform.has_uv else (UV,)
    return Wanted(title="what the agent needs", lines=(*KERNEL_NEEDS, *AGENT_NEEDS, *uv))


def wanted_by_environment(release: Release, requirements: Sequence[str]) -> Wanted:
    """What an environment is made of."""
    return Wanted(title=release.title, lines=(*release.requires, *KERNEL_NEEDS, "pip", *requirements))


def download_wheels(platform: WorkerPlatform, wanted: Wanted) -> tuple[Path, ...]:
    """The wheels of all that is wanted, and of all that it requires.

    Raises:
        BadInput: this machine has no uv.
        EnvironmentFailed: the requirements do not go together, or something has no wheel for the worker.
    """
    uv = uv_command()
    lock = _settled(uv, platform, wanted)
    folder = data_dir() / "wheels" / hashlib.sha256(f"{platform} {lock}".encode()).hexdigest()[:32]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tags = [part for glibc in _GLIBC for part in ("--platform", f"manylinux_{glibc}_{platform.machine}")]
    tags += ["--platform", f"manylinux2014_{platform.machine}"]
    python = ["--python-version", platform.python, "--implementation", "cp", "--only-binary", ":all:", *tags]
    pip = ["pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    hashed, bare = _by_hashes(lock)
    for lines, options in ((hashed, ["--require-hashes"]), (bare, [])):
        if lines:
            (folder / "lock.txt").write_text("\n".join(lines))
            argv = [*uv, "tool", "run", *pip, *python, *options, "--requirement", str(folder / "lock.txt")]
            run_uv(argv, f"download {wanted.title}")
    return tuple(sorted(folder.glob("*.whl")))


def _settled(uv: Sequence[str], platform: WorkerPlatform, wanted: Wanted) -> str:
    options = ["--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--only-binary", ":all:"]
    target = ["--python-version", platform.python, "--python-platform", f"{platform.machine}-manylinux_2_28"]
    # uv keeps to the versions and hashes that it finds in the file where they fit
    with requirements_file(lock_text()) as lock:
        argv = [*uv, "pip", "compile", *options, *target, "--output-file", str(lock), "-"]
        run_uv(argv, f"choose versions for {wanted.title}", "\n".join(wanted.lines))
        return lock.read_text()


def _by_hashes(lock: str) -> tuple[list[str], list[str]]:
    """Requirements with hashes, and those that have none, which a user takes from a repository of sources."""
    lines = [line for line in lock.replace("\\\n", " ").splitlines() if line[:1].isalnum()]
    return [line for line in lines if "--hash=" in line], [line for line in lines if "--hash=" not in line]


def uv_command() -> list[str]:
    """How this machine's uv is run.

    Raises:
        BadInput: it has none.
    """
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    if found := shutil.which("uv"):
        return [found]
    raise BadInput("There is no uv on this machine, which chooses and downloads wheels.", hint="pip install uv")


def run_uv(argv: Sequence[str], purpose: str, said: str = "", **variables: str) -> str:
    """What it prints, for people who want `purpose`.

    Raises:
        EnvironmentFailed: it failed; `raw` has its last words.
    """
    environment = {**os.environ, **variables}
    done = subprocess.run(argv, input=said, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise EnvironmentFailed(
            f"This machine could not {purpose} for the worker.",
            exists="Nothing was sent.",
            hint="The raw words of uv or pip say why.",
            raw=done.stderr[-2000:],
        )
    return done.stdout
