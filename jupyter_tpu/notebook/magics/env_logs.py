"""``%tpu python`` and ``%tpu logs``: show this kernel's Python, or the end of the agent's log."""

from __future__ import annotations

import os
import platform
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jupyter_tpu.errors import BadInput, EnvironmentFailed, Text
from jupyter_tpu.notebook.display import MagicOutput, Section, text_output
from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.notebook.magics.workers import end_of_file, output_of

PACKAGES = (
    *("jax", "jaxlib", "libtpu", "flax", "optax"),
    *("torch", "torch_xla", "torch_tpu", "tensorflow", "keras", "transformers"),
    *("numpy", "ipykernel", "IPython", "ipywidgets", "anywidget"),
)
"""Packages that affect whether a framework finds its chips and whether widgets are live."""

_VARIABLES = (
    "TPU_",
    "JAX_",
    "XLA_",
    "PJRT_",
    "LIBTPU_",
    "TF_",
    "PYTORCH_",
    "CLOUD_TPU_",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
_SECRET = re.compile("TOKEN|SECRET|PASS|PWD|AUTH|KEY|CREDENTIAL", re.IGNORECASE)
# A password may contain slashes and "@", so remove everything before the last "@" of the address.
_SIGNED_IN = re.compile(r"(?<=//)\S+@|[^\s/]+@")
_NOT_SHOWN = Text("(set, not shown)")
# Bytes to read from the end of the log; about 1,000 lines of usual length.
_LOG_BYTES = 256 * 1024


def python(context: MagicContext) -> MagicOutput:
    """Show this kernel's Python, the packages relevant for TPUs, and the variables that frameworks read."""
    versions = {name: _version(name) for name in PACKAGES}
    missing = ", ".join(name for name, number in versions.items() if not number)
    variables = list(variables_shown(context.environ))
    return MagicOutput(
        sections=[
            Section(title=Text("Python"), lines=list(_python_lines())),
            Section(
                title=Text("Relevant packages"),
                lines=[Text("not installed: {names}", names=missing)] if missing else [],
                header=(Text("package"), Text("version")),
                rows=[row for row in versions.items() if row[1]],
            ),
            Section(
                title=Text("Variables"),
                lines=[] if variables else [Text("No environment variables for frameworks are set.")],
                header=(Text("variable"), Text("value")),
                rows=variables,
            ),
        ]
    )


def _python_lines() -> Iterator[str]:
    yield f"{platform.python_implementation()} {platform.python_version()}: {sys.executable}"
    yield Text("environment: {folder}", folder=sys.prefix)
    yield Text("system: {system}", system=platform.platform())


def _version(name: str) -> str:
    try:
        return version(name)
    except (PackageNotFoundError, ValueError, OSError):  # a broken installation has no version
        return ""


def variables_shown(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that frameworks read; mask secrets, and mask user names and passwords in addresses."""
    for name in sorted(environ):
        if name.startswith(_VARIABLES):
            yield name, _NOT_SHOWN if _SECRET.search(name) else _SIGNED_IN.sub("(not shown)@", environ[name])


def logs(context: MagicContext, options: Namespace) -> MagicOutput:
    """Show the last lines of the agent's log, or of another worker's output."""
    if options.worker is not None:
        return output_of(context, options.worker, options.lines)
    path = log_path(context.environ)
    try:
        lines = last_lines(path, options.lines)
    except FileNotFoundError as error:
        raise BadInput(
            Text("There is no agent log at {path}.", path=path), hint="Choose a kernel on a TPU node."
        ) from error
    except OSError as error:
        raise EnvironmentFailed(Text("The agent's log cannot be read: {error}.", error=error)) from error
    if not lines:
        return text_output(Text("The agent's log is empty."))
    return end_of_file(path, lines)


def log_path(environ: Mapping[str, str]) -> Path:
    """Return the log file of this user's agent."""
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".jupyter-tpu" / "agent.log"


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a file, which may be large or binary; raises OSError."""
    with path.open("rb") as file:
        begin = max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES)
        file.seek(begin)
        lines = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
    # If the read did not start at the beginning of the file, its first line is probably incomplete.
    return lines[1 if begin else 0 :][-count:]
