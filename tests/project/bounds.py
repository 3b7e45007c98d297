"""Run a notebook with the oldest packages that pyproject.toml allows, and with the newest ones.

    python tests/project/bounds.py               # what `make bounds` runs
    python tests/project/bounds.py lowest@3.11

For each: an environment with nothing but our wheel and what that asks for, the emulated cloud and the command line in
it, the tutorial's notebook on a node, and a Jupyter server that answers for the extension. Interpreters that are not on
PATH are fetched by uv; where that fails, the line says so and the rest goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DIGITS = files("jupyter_tpu") / "notebook" / "examples" / "digits.ipynb"
KINDS = ("lowest@3.11", "newest@3.12", "newest@3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
NODE, ZONE, PROJECT, TOKEN = "my-node", "us-central1-a", "my-project", "bounds"
WITHIN_S = 120


class NoInterpreter(Exception):
    """A Python that is neither on this machine nor to be had."""


def main(kinds: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="jtpu-bounds-") as folder:
        wheel = build_wheel(Path(folder))
        failed = [kind for kind in kinds or KINDS if not has_worked(kind, wheel, Path(folder) / kind)]
    return 1 if failed else 0


def has_worked(kind: str, wheel: Path, folder: Path) -> bool:
    folder.mkdir()
    resolution, _, python = kind.partition("@")
    try:
        run_notebook(install(wheel, folder, RESOLUTIONS[resolution], python))
    except NoInterpreter as error:
        say(f"{kind}: skipped: {error}")
    except (subprocess.SubprocessError, OSError, AssertionError, LookupError, TypeError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        say(f"{kind}: FAILED: {error}\n{said}")
        return False
    else:
        say(f"{kind}: the notebook ran, and the server answered")
    return True


def build_wheel(folder: Path) -> Path:
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    environ = {**os.environ, "SKIP_JUPYTER_BUILDER": "1"}
    run([sys.executable, "-c", build, str(folder)], cwd=ROOT, env=environ)
    return next(folder.glob("*.whl"))


@dataclass(frozen=True)
class Installed:
    """An environment, and a home for what runs in it."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "venv/bin/python")

    @property
    def environ(self) -> dict[str, str]:
        runtime = self.folder / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        path = f"{self.folder / 'venv/bin'}:/usr/bin:/bin"
        own = {"PATH": path, "HOME": str(self.folder), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(runtime)}
        return {**own, "NO_GCE_CHECK": "true", "JUPYTER_TPU_PROJECT": PROJECT}


def install(wheel: Path, folder: Path, resolution: str, python: str) -> Installed:
    """Make the environment.

    Raises:
        NoInterpreter: there is no such Python, and uv can't fetch one.
    """
    made = subprocess.run([*uv("venv"), "--python", python, str(folder / "venv")], capture_output=True, text=True)
    if made.returncode:
        raise NoInterpreter(f"there is no Python {python}, and uv can't fetch one: {last_line(made.stderr)}")
    installed = Installed(folder)
    argv = ["install", "--resolution", resolution, "--python", installed.python, f"{wheel}[demo]"]
    run([*uv("pip"), *argv], cwd=folder, env=None)
    return installed


def run_notebook(installed: Installed) -> None:
    """Create a node, run the tutorial on it, ask a server, delete the node.

    Raises:
        CalledProcessError: a command failed.
        AssertionError: something else did.
    """
    with emulator(installed) as endpoint:
        environ = {**installed.environ, "JUPYTER_TPU_ENDPOINT": endpoint}

        def python(*arguments: str) -> None:
            run([installed.python, *arguments], cwd=installed.folder, env=environ)

        python("-m", "jupyter_tpu.cli", "create", NODE, "--type", "v5litepod-8", "--zone", ZONE)
        shutil.copy(str(DIGITS), installed.folder / "digits.ipynb")
        kernel = f"--ExecutePreprocessor.kernel_name=tpu-{NODE}-{ZONE}"
        python("-m", "nbconvert", "--to", "notebook", "--execute", "digits.ipynb", "--output", "done.ipynb", kernel)
        assert "accuracy" in (installed.folder / "done.ipynb").read_text(encoding="utf-8")
        with server(installed, environ) as url:
            nodes = ask(f"{url}jupyter-tpu/v1/nodes")
            assert [node["node_id"] for node in nodes["nodes"]] == [NODE], nodes
        python("-m", "jupyter_tpu.cli", "delete", NODE, "--yes")


@contextmanager
def emulator(installed: Installed) -> Iterator[str]:
    """The emulated cloud, run by the environment itself; the address of its API."""
    options = ["--json", "--project", PROJECT, "--state-dir", str(installed.folder / "cloud"), "--time-scale", "200"]
    argv = [installed.python, "-m", "jupyter_tpu.emulator", *options]
    with program(argv, installed, installed.environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the emulator ended: {(installed.folder / 'log').read_text()}"
        yield json.loads(line)["grpc"]


@contextmanager
def server(installed: Installed, environ: dict[str, str]) -> Iterator[str]:
    """JupyterLab's server with the extension; its address."""
    runtime = installed.folder / "runtime"
    options = ["--ip=127.0.0.1", "--port=0", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    argv = [installed.python, "-m", "jupyterlab", *options]
    with program(argv, installed, {**environ, "JUPYTER_RUNTIME_DIR": str(runtime)}) as process:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline and process.poll() is None:
            for info in runtime.glob("jpserver-*.json"):
                told = json.loads(info.read_text() or "{}")
                if told and answers(told["url"]):
                    yield str(told["url"])
                    return
            time.sleep(0.2)
        raise AssertionError(f"JupyterLab does not listen: {(installed.folder / 'log').read_text()}")


@contextmanager
def program(
    argv: Sequence[str], installed: Installed, environ: dict[str, str], stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (installed.folder / "log").open("ab") as log,
        subprocess.Popen(argv, cwd=installed.folder, env=environ, stdout=stdout or log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        ask(f"{url}api/status")
    except OSError:
        return False
    return True


def ask(url: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
        return json.load(answer)


def uv(command: str) -> list[str]:
    return [sys.executable, "-m", "uv", command]


def run(argv: Sequence[str], *, cwd: Path, env: dict[str, str] | None) -> None:
    subprocess.run(argv, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=900)


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
