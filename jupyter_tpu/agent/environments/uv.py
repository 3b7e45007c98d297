"""Find or install uv on the worker, run it, and translate its failures into errors with a hint."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from jupyter_tpu.agent.lock import UV, locked, requirements_file
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import EnvironmentFailed

Report = Callable[[str, str, float], None]
"""A progress callback: it is called with the phase, a message and the completed fraction of the whole."""

NO_INDEX = (
    "The worker must reach a Python package index: give the node an external IP or Cloud NAT, set a mirror in "
    "~/.config/uv/uv.toml on the worker, or send the packages from here to all workers: `jupyter tpu env make NODE jax "
    "--push`."
)
_WAYS_OUT = (
    (
        re.compile(r"No space left on device|os error 28\b|Errno 28\b|Disk quota exceeded"),
        "The worker's disk is full: free space on it with `jupyter tpu ssh`.",
    ),
    (
        re.compile(r"Hash mismatch|do not match the hashes", re.IGNORECASE),
        "The download differs from what was published: a proxy or a mirror has changed it. Try again, or set another "
        "mirror in ~/.config/uv/uv.toml on the worker.",
    ),
    (
        re.compile(r"it was ended by SIG"),
        "The worker may be short of memory: check with `jupyter tpu top`, and try again.",
    ),
    (
        re.compile(r"Couldn't parse"),
        "Fix that requirement; a line looks like 'numpy>=2' or 'name @ https://…'.",
    ),
)
# Characters of uv's explanation in a message; `raw` has the full text.
_MOST_REASON = 600
_BEGINS = re.compile(r"\berror: |× ", re.IGNORECASE)
# Time limit of one step. It is shorter than a client's timeout for the worker (`link.preparation.PATIENCE_S`), so that
# the worker can report which step hangs.
STEP_S = 9 * 60.0
# Characters of output that an error carries in `raw`.
_TAIL = 2000

Result = TypeVar("Result")


def find_uv(home: Home, phase: str, report: Report) -> str:
    """Return the path of uv, after installing it if the worker has none.

    Raises:
        EnvironmentFailed: uv can't be installed.
    """
    own = home.root / "uv"
    places = [Path.home() / ".local/bin/uv", Path.home() / ".cargo/bin/uv", own / "bin/uv"]
    if found := shutil.which("uv") or next((str(place) for place in places if place.is_file()), None):
        return found
    report(phase, "Downloading uv, which installs Python packages", 0.1)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(own), "--only-binary", ":all:"]
    with requirements_file(locked([UV])) as lock:
        argv = [*pip, "--require-hashes", "--requirement", str(lock)]
        try_wheels_then_index(
            home, lambda options: run([*argv, *(["--no-index", *options[1:]] if options else [])], "install uv")
        )
    return str(own / "bin/uv")


def try_wheels_then_index(home: Home, attempt: Callable[[Sequence[str]], Result]) -> Result:
    """Call `attempt` with the wheels sent to this worker, if any; if that fails, call it with the package index.

    Args:
        attempt: called with options for uv; the last EnvironmentFailed that it raises is propagated.
    """
    sent = home.root / "wheels"
    if any(sent.glob("*.whl")):
        with suppress(EnvironmentFailed):
            return attempt(["--offline", "--find-links", str(sent)])
    return attempt([])


def run(argv: Sequence[str], purpose: str) -> None:
    """Run a step to completion.

    Raises:
        EnvironmentFailed: the step failed, can't be run or took too long; `raw` has the end of its output.
    """
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=STEP_S
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(
            f"Could not {purpose} on the worker within {STEP_S / 60:.0f} minutes.", hint=NO_INDEX
        ) from None
    except OSError as error:
        raise EnvironmentFailed(
            f"Could not {purpose} on the worker: {error}.", hint=hint_for(str(error)), raw=str(error)
        ) from error
    if done.returncode != 0:
        raise failed(purpose, done.stderr or done.stdout or exit_reason(done.returncode))


def run_streaming(argv: Sequence[str], purpose: str, on_line: Callable[[str], None]) -> None:
    """Run a slow step, such as a download, and call `on_line` with each line of its output."""
    output: list[str] = []
    try:
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stderr
            for line in process.stderr:
                output = [*output[-40:], line]  # enough for uv's explanation, which comes last
                on_line(line.strip())
    except OSError as error:
        raise EnvironmentFailed(
            f"Could not {purpose} on the worker: {error}.", hint=hint_for(str(error)), raw=str(error)
        ) from error
    if process.returncode != 0:
        raise failed(purpose, "".join(output) or exit_reason(process.returncode))


def exit_reason(exit_code: int) -> str:
    """Return a message for a program killed by a signal, or an empty string for other exits.

    >>> exit_reason(-9)
    'error: it was ended by SIGKILL'
    """
    return f"error: it was ended by {signal.Signals(-exit_code).name}" if exit_code < 0 else ""


def failed(purpose: str, output: str) -> EnvironmentFailed:
    """Return the error for a step that failed with this output."""
    why = reason(output).rstrip(".")
    message = f"Could not {purpose} on the worker{': ' if why else ''}{why}."
    return EnvironmentFailed(message, hint=hint_for(output) or NO_INDEX, raw=output[-_TAIL:])


def hint_for(output: str) -> str:
    """Return the hint for a known cause in the output, or an empty string if there is none."""
    return next((hint for pattern, hint in _WAYS_OUT if pattern.search(output)), "")


def reason(output: str) -> str:
    """Return uv's or pip's explanation on one line, without decoration or earlier output.

    >>> reason("error: No solution found\n  cause: Because a is b and\n you require c, no.\nhint: look")
    'Because a is b and you require c, no.'
    >>> reason("Resolved 2 packages\nerror: Failed to unzip\n  cause: No space left on device (os error 28)")
    'Failed to unzip cause: No space left on device (os error 28)'
    """
    begins = _BEGINS.search(output)
    words = " ".join(re.sub("[╰├]─▶|×", " ", output[begins.end() if begins else 0 :]).split())
    _, because, rest = words.partition("Because ")
    return (because + rest.partition(" hint:")[0] if because else words)[:_MOST_REASON]


def can_run(python: str, program: str) -> bool:
    """Whether this Python exists and runs the program without an error."""
    try:
        done = subprocess.run([python, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (FileNotFoundError, PermissionError):
        return False
    return done.returncode == 0
