"""Download wheels on this machine for a worker that cannot reach a package index.

uv resolves the versions for the worker's Python and platform. pip, which uv runs as a tool, downloads the missing
wheels. The functions block until the download finishes.
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

from jupyter_tpu.agent.lock import (
    AGENT_NEEDS,
    KERNEL_NEEDS,
    SLICE_NEEDS,
    UV,
    WIDGET_NEEDS,
    lock_text,
    requirements_file,
)
from jupyter_tpu.errors import BadInput, EnvironmentFailed, Text
from jupyter_tpu.frameworks import Release
from jupyter_tpu.journal.paths import data_dir

# glibc versions that wheels are built for, newest first. TPU VM images have 2.35 (Ubuntu 22.04).
_GLIBC = ("2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlatform:
    """The platform that wheels must support: the worker's Python, such as ``3.10``, and machine, such as ``x86_64``."""

    python: str
    machine: str
    has_uv: bool

    def __post_init__(self) -> None:
        if self.machine not in _MACHINES or not all(part.isdigit() for part in self.python.split(".")):
            raise EnvironmentFailed(
                Text(
                    "No wheels are known for Python {python} on {machine}.",
                    python=repr(self.python[:20]),
                    machine=repr(self.machine[:20]),
                )
            )

    @property
    def python_version(self) -> tuple[int, int]:
        """The worker's Python version as a tuple, such as ``(3, 10)``."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requirements to download for one Python version, and a title for messages."""

    title: str
    lines: tuple[str, ...]


def wanted_by_agent(platform: WorkerPlatform, *, is_slice: bool) -> Wanted:
    """Return the requirements of the agent and of kernels without an environment, for the system Python."""
    uv = () if platform.has_uv else (UV,)
    slice_needs = SLICE_NEEDS if is_slice else ()
    return Wanted(title="what the agent needs", lines=(*KERNEL_NEEDS, *AGENT_NEEDS, *slice_needs, *uv))


def wanted_by_environment(release: Release, requirements: Sequence[str]) -> Wanted:
    """Return an environment's framework and packages as requirements."""
    needs = (*KERNEL_NEEDS, *WIDGET_NEEDS, "pip")
    return Wanted(title=release.title, lines=(*release.requires, *needs, *requirements))


def download_wheels(platform: WorkerPlatform, wanted: Wanted) -> tuple[Path, ...]:
    """Download the wheels of `wanted` and all of its dependencies; return their paths.

    Raises:
        BadInput: this machine has no uv.
        EnvironmentFailed: the requirements conflict, or a package has no wheel for the worker.
    """
    uv = uv_command()
    lock = _resolved(uv, platform, wanted)
    # Use one folder per set of versions. Files from an earlier run are complete or will be overwritten.
    folder = data_dir() / "wheels" / hashlib.sha256(f"{platform} {lock}".encode()).hexdigest()[:32]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # pip matches platform tags literally, so list all tags that the worker's glibc supports.
    tags = [part for glibc in _GLIBC for part in ("--platform", f"manylinux_{glibc}_{platform.machine}")]
    tags += ["--platform", f"manylinux2014_{platform.machine}"]
    python = ["--python-version", platform.python, "--implementation", "cp", "--only-binary", ":all:", *tags]
    pip = ["pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    # Run pip twice: if one package has a hash, pip requires hashes for all of them, but packages from a repository have
    # none.
    hashed, bare = _by_hashes(lock)
    for lines, options in ((hashed, ["--require-hashes"]), (bare, [])):
        if lines:
            (folder / "lock.txt").write_text("\n".join(lines))
            argv = [*uv, "tool", "run", *pip, *python, *options, "--requirement", str(folder / "lock.txt")]
            run_uv(argv, f"download {wanted.title}")
    return tuple(sorted(folder.glob("*.whl")))


def _resolved(uv: Sequence[str], platform: WorkerPlatform, wanted: Wanted) -> str:
    options = ["--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--only-binary", ":all:"]
    target = ["--python-version", platform.python, "--python-platform", f"{platform.machine}-manylinux_2_28"]
    # uv keeps the versions and hashes in the output file if they are compatible
    with requirements_file(lock_text()) as lock:
        argv = [*uv, "pip", "compile", *options, *target, "--output-file", str(lock), "-"]
        run_uv(argv, f"choose versions for {wanted.title}", "\n".join(wanted.lines))
        return lock.read_text()


def _by_hashes(lock: str) -> tuple[list[str], list[str]]:
    """Split requirements by whether they have hashes. Requirements without hashes come from source repositories."""
    lines = [line for line in lock.replace("\\\n", " ").splitlines() if line[:1].isalnum()]
    return [line for line in lines if "--hash=" in line], [line for line in lines if "--hash=" not in line]


def uv_command() -> list[str]:
    """Return the command that runs uv on this machine.

    Raises:
        BadInput: this machine has no uv.
    """
    if importlib.util.find_spec("uv"):
        return [sys.executable, "-m", "uv"]
    if found := shutil.which("uv"):
        return [found]
    raise BadInput(
        "uv, which selects and downloads the wheels, is not installed on this machine.",
        hint="Install uv with `pip install uv`.",
    )


def run_uv(argv: Sequence[str], purpose: str, stdin: str = "", **variables: str) -> str:
    """Run uv and return its standard output.

    Args:
        purpose: completes the message "This machine could not … for the worker".
        stdin: uv's standard input.
        variables: environment variables to set.

    Raises:
        EnvironmentFailed: uv failed; `raw` contains the end of its standard error.
    """
    environment = {**os.environ, **variables}
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise EnvironmentFailed(
            Text("This machine could not {purpose} for the worker.", purpose=purpose),
            exists="Nothing was sent.",
            hint="Fix the error from uv or pip that the details show, then try again.",
            raw=done.stderr[-2000:],
        )
    return done.stdout
