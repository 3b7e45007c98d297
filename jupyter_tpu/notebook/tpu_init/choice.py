"""Choose the framework for a line of ``%tpu_init``: the named one, else an imported one, else an installed one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from jupyter_tpu.errors import AcceleratorFailed, BadInput, Text
from jupyter_tpu.frameworks import FRAMEWORKS, TITLES
from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init.diagnosis import either, install_hint

MODULES = {"jax": "jax", "torch_xla": "torch_xla", "torch_tpu": "torch_tpu", "tf": "tensorflow"}
IMPORTED = Text("already imported in this kernel")
ARGUMENTS = ("auto", *FRAMEWORKS)
"""The arguments that ``%tpu_init`` accepts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A framework and why ``auto`` chose it; the reason is empty if the user named the framework."""

    framework: str
    why: str = ""


def choose_framework(line: str, imported: Sequence[str], installed: Sequence[str]) -> Choice | None:
    """Return the framework that a ``%tpu_init`` line selects; None for ``auto`` if no framework is installed.

    Raises:
        BadInput: the line contains no known framework, or ``auto`` finds several.
    """
    word = line.strip() or "auto"
    if word not in ARGUMENTS:
        raise BadInput(
            Text("{word} is not a framework that %tpu_init supports.", word=f"{word[:70]!r}"),
            hint=Text("Use one of: {frameworks}.", frameworks=", ".join(ARGUMENTS)),
        )
    if word != "auto":
        return Choice(word)
    # The user's code has chosen the imported framework, whatever else is installed.
    if imported:
        return _only(imported, IMPORTED)
    # Never guess among several frameworks: the wrong framework would use the chips until the process exits.
    return _only(installed, Text("the only framework installed here")) if installed else None


def _only(found: Sequence[str], why: str) -> Choice:
    if len(found) == 1:
        return Choice(found[0], why)
    message = Text("%tpu_init can't choose a framework: {first} and {last} are installed.")
    if why == IMPORTED:
        message = Text("%tpu_init can't choose a framework: {first} and {last} are imported.")
    *first, last = (TITLES[each] for each in found)
    raise BadInput(
        message.with_arguments(first=", ".join(first), last=last),
        exists="Each kernel can use only one framework on the TPU.",
        hint=Text("To choose one, run {lines}.", lines=either([f"`%tpu_init {each}`" for each in found])),
    )


def imported_frameworks() -> list[str]:
    """Return the frameworks that this kernel has imported."""
    return [framework for framework, module in MODULES.items() if module in sys.modules]


def installed_frameworks() -> list[str]:
    """Return the frameworks that this kernel could import, without importing any."""
    importlib.invalidate_caches()  # %pip may have just installed a framework
    return [framework for framework, module in MODULES.items() if _is_there(module)]


def _is_there(module: str) -> bool:
    # find_spec raises ValueError for a module that was manually added to sys.modules
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(module) is not None
    return False


def nothing_installed(worker: ThisWorker) -> AcceleratorFailed:
    """Return the error for a Python without a framework for TPUs."""
    return AcceleratorFailed(
        "No framework for TPUs is installed in this kernel's Python.",
        hint=install_hint(
            Text("Install one, for example JAX with `{install}`, then run %tpu_init again."), "jax", worker
        ),
    )
