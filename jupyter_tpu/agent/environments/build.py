"""Build a framework's environment with uv in steps, so that a killed build can resume.

All versions are resolved before anything is installed, so conflicting requirements leave an existing environment
unchanged. Everything here blocks, possibly for minutes, so call it in a thread.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_tpu.agent.environments.files import BuildRecord, EnvironmentFiles, name_and_version, names, normalised
from jupyter_tpu.agent.environments.python import accepted_pythons, no_python, preferred_python, sent_python
from jupyter_tpu.agent.environments.request import EnvironmentRequest
from jupyter_tpu.agent.environments.uv import (
    Report,
    can_run,
    exit_reason,
    failed,
    find_uv,
    hint_for,
    reason,
    run_streaming,
    try_wheels_then_index,
)
from jupyter_tpu.agent.lock import KERNEL_NEEDS, WIDGET_NEEDS, lock_text, requirements_file, with_hashes
from jupyter_tpu.errors import BadInput, EnvironmentFailed
from jupyter_tpu.frameworks import Release

PHASE = "environment"
_NEEDS = (*KERNEL_NEEDS, *WIDGET_NEEDS, "pip")  # %pip needs pip, which uv doesn't install
_COMPILE = ("--quiet", "--no-header", "--no-annotate")
_NO_SOLUTION = "No solution found"
_NEVER = (_NO_SOLUTION, "Couldn't parse")  # uv's messages for failures that a retry cannot fix


@dataclass
class Build:
    """One build of an environment.

    Attributes:
        files: the environment's files.
        request: the client's request.
        report: called with the progress.
        notes: requested packages that couldn't be installed, for display; the environment works without them.
    """

    files: EnvironmentFiles
    request: EnvironmentRequest
    report: Report
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Build the environment, or install missing packages in it.

        Raises:
            BadInput: the environment has another version of the framework.
            EnvironmentFailed: the environment can't be built, or the requirements conflict.
        """
        made = self.files.usable()
        release = self._release(made)
        requirements = merged(made.requirements if made else (), self.request.requirements)
        if made is None or requirements != made.requirements:
            # Store the request first: if the agent is killed now, the next agent continues the build.
            self.files.set_pending_request(self.request)
            made = self._install(release, requirements, is_new=made is None)
            self.files.set_build_record(made)
        self._install_packages()
        self.files.clear_pending_request()

    def _release(self, made: BuildRecord | None) -> Release:
        release = self.request.release(made.version if made else "")
        if made and release.version != made.version:
            raise BadInput(
                f"The environment {release.framework} on the worker has version {made.version}, not {release.version}.",
                exists="It was not changed.",
                hint=f"Remove it first: `jupyter tpu env remove NODE {release.framework}`.",
            )
        return release

    def _install(self, release: Release, requirements: tuple[str, ...], *, is_new: bool) -> BuildRecord:
        try:
            uv = find_uv(self.files.home, PHASE, self.report)
            self._make_folder(uv, release)
            lock = self._lock(uv, release, requirements, is_new=is_new)
        except EnvironmentFailed as error:
            if is_new:
                self._tidy(error)
            self.files.clear_pending_request()
            raise
        return BuildRecord(release.version, self.files.python_version(), requirements, lock)

    def _tidy(self, error: EnvironmentFailed) -> None:
        """Remove the partial environment if a retry can't complete it.

        Otherwise keep it, and say so in the error.
        """
        if any(words in error.raw for words in _NEVER):
            self.files.remove()
        elif self.files.folder.exists():
            remove = f"`jupyter tpu env remove NODE {self.files.framework}`"
            error.exists = (
                f"The partial environment stays, and the next attempt continues from there; {remove} frees its space."
            )

    def _make_folder(self, uv: str, release: Release) -> None:
        if can_run(self.files.python, "pass"):
            return
        # Use the worker's own Python if it is suitable, otherwise one that a client sent, otherwise one that uv
        # downloads.
        own = sys.version_info[:2]
        preferred = preferred_python(release, own)
        sent = sent_python(self.files.home, release) if preferred else ""
        fetched = accepted_pythons(release, preferred) if preferred and not sent else ""
        python = f" with Python {fetched}, which uv downloads if it is missing" if fetched else ""
        self.report(PHASE, f"Creating an environment for {release.title}{python}", 0.05)
        shutil.rmtree(self.files.folder, ignore_errors=True)
        argv = [uv, "venv", "--python", sent or fetched or sys.executable, str(self.files.folder)]
        try:
            run_streaming(argv, "create a Python environment", lambda line: self._relay(line, 0.05))
        except EnvironmentFailed as error:
            if not fetched:
                raise
            message, hint = no_python(release, own, hint_for(error.raw))
            why = reason(error.raw)
            raise EnvironmentFailed(f"{message} {why}".strip(), hint=hint, raw=error.raw) from error

    def _lock(self, uv: str, release: Release, requirements: Sequence[str], *, is_new: bool) -> tuple[str, ...]:
        """Install all packages, and return them as requirements with pinned versions."""
        # Restore an environment with its previous versions if they can still be installed.
        if is_new and self.request.pins:
            try:
                return self._install_lock(
                    uv, self.request.pins, f"the former versions of {release.title}'s environment"
                )
            except EnvironmentFailed as error:
                self.notes.append(f"{error.message} Current versions were installed instead.")
        pins = self._resolve(uv, release, requirements)
        return self._install_lock(uv, pins, f"{release.title} ({len(pins)} packages)")

    def _resolve(self, uv: str, release: Release, requirements: Sequence[str]) -> tuple[str, ...]:
        """Resolve all versions with uv, without installing anything, and return requirements with pinned versions."""
        self.report(PHASE, f"Choosing versions for {release.title}", 0.15)
        with tempfile.TemporaryDirectory() as folder:
            wanted, lock = Path(folder) / "wanted.in", Path(folder) / "lock.txt"
            wanted.write_text("\n".join((*release.requires, *_NEEDS, *requirements)))
            made = self.files.usable()
            # uv prefers the versions in its output file. So an existing environment keeps its versions, and a new
            # environment gets the versions of our lock, whose hashes are known.
            lock.write_text("\n".join(made.pins) if made else lock_text())
            argv = [
                uv,
                "pip",
                "compile",
                *_COMPILE,
                "--python",
                self.files.python,
                "--output-file",
                str(lock),
                str(wanted),
            ]
            try_wheels_then_index(self.files.home, lambda more: self._compile([*argv, *more], release, requirements))
            return tuple(line.strip() for line in lock.read_text().splitlines() if line[:1].isalnum())

    def _compile(self, argv: Sequence[str], release: Release, requirements: Sequence[str]) -> None:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            earlier = [line for line in requirements if line not in self.request.requirements]
            raise _no_versions(release, requirements, earlier, done.stderr or exit_reason(done.returncode))

    def _install_lock(self, uv: str, lines: Sequence[str], what: str) -> tuple[str, ...]:
        with requirements_file("\n".join(with_hashes(lines))) as lock:
            self._pip_install(uv, ["--requirement", str(lock)], what, 0.3)
        return tuple(lines)

    def _install_packages(self) -> None:
        """Install the packages that the user had added, all together or, if that fails, one by one."""
        installed = self.files.installed()
        missing = [line for line in self.request.packages if line not in installed.values()]
        if not missing:
            return
        uv = find_uv(self.files.home, PHASE, self.report)
        try:
            self._pip_install(uv, missing, f"packages that you had added: {names(missing)}", 0.9)
        except EnvironmentFailed:
            self._install_one_by_one(uv, missing)

    def _install_one_by_one(self, uv: str, lines: Sequence[str]) -> None:
        for line in lines:
            try:
                self._pip_install(uv, [line], f"packages that you had added: {names([line])}", 0.95)
            except EnvironmentFailed as error:
                self.notes.append(f"{line} could not be installed again: {reason(error.raw)}")

    def _pip_install(self, uv: str, what: Sequence[str], words: str, fraction: float) -> None:
        self.report(PHASE, f"Installing {words}", fraction)
        argv = [uv, "pip", "install", "--verify-hashes", "--python", self.files.python, *what]
        try_wheels_then_index(
            self.files.home,
            lambda options: run_streaming(
                [*argv, *options], f"install {words}", lambda line: self._relay(line, fraction)
            ),
        )

    def _relay(self, line: str, fraction: float) -> None:
        if line.startswith(("Downloading", "Building", "Prepared", "Installed")):
            self.report(PHASE, line[:200], fraction)


def merged(before: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Merge old and new requirements; a package's new lines replace its old ones.

    >>> merged(["Tiny_Plots==1", "chex"], ["tiny-plots==2"])
    ('chex', 'tiny-plots==2')
    """
    again = set(map(_package, more))
    kept = (line for line in before if line in more or _package(line) not in again)
    return tuple(dict.fromkeys((*kept, *more)))


def _package(line: str) -> str:
    return normalised(name_and_version(line)[0])


def _no_versions(release: Release, requirements: Sequence[str], earlier: Sequence[str], raw: str) -> EnvironmentFailed:
    if _NO_SOLUTION not in raw or not requirements:
        return failed(f"choose versions for {release.title}", raw)
    forget = f"`jupyter tpu env remove NODE {release.framework}`"
    return EnvironmentFailed(
        f"The requirements of the notebook's folder cannot be installed with {release.title}: {reason(raw)}",
        exists="Nothing was installed or changed.",
        hint=f"Change the folder's requirements ({names(requirements)}), or use the environment of another framework."
        + (f" Earlier requirements ({names(earlier)}) still apply; {forget} removes them." if earlier else ""),
        raw=raw[-2000:],
    )
