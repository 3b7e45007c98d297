"""Import a framework with the right environment variables, or explain why this fails."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, ClassVar

from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.known_errors import find_known_error

# The packages that each framework's import loads.
_PACKAGES = {
    "jax": ("jax", "jaxlib"),
    "torch_xla": ("torch", "torch_xla"),
    "torch_tpu": ("torch", "torch_tpu"),
    "tf": ("tensorflow",),
}
# How long an interrupt waits for an import to end, before another interrupt stops the import after all.
_HOLD_S = 5.0


class _Before:
    """The values that environment variables had before `set_environment`; None if the variable did not exist."""

    variables: ClassVar[dict[str, str | None]] = {}


def set_environment(variables: Mapping[str, str]) -> None:
    """Set environment variables; call this before the first import, because frameworks read them only once."""
    # setdefault keeps the oldest value if a variable is set twice.
    for name in variables:
        _Before.variables.setdefault(name, os.environ.get(name))
    os.environ.update(variables)


@contextmanager
def restore_environment_on_error() -> Iterator[None]:
    """Undo the calls of `set_environment` if the context raises; keep variables that the framework itself has set.

    Otherwise a variable that limits TorchTPU to one chip, for example, would affect the next framework.
    """
    _Before.variables.clear()
    try:
        yield
    except BaseException:
        for name, value in _Before.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        raise


def import_framework(framework: str, module: str, worker: ThisWorker) -> Any:
    """Import and return a module of the framework.

    Raises:
        AcceleratorFailed: the module is not installed, does not load, was not fully loaded by an earlier import, or is
            hidden by a file or folder with the same name.
        KeyboardInterrupt: an interrupt has arrived; the module is loaded nevertheless.
    """
    importlib.invalidate_caches()  # %pip may have just installed the module
    is_partial = _is_partly_loaded(framework)
    try:
        with _hold_interrupts():
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if find_known_error(str(error)):
            raise diagnosis.diagnose_start(str(error), worker, framework) from error
        raise diagnosis.missing(framework, worker, str(error)) from error
    except (ImportError, RuntimeError, ValueError, TypeError, OSError) as error:
        if is_partial and not find_known_error(str(error)):
            raise diagnosis.partly_loaded(framework, str(error)) from error
        # for example, jax and jaxlib have different versions, or PyTorch lacks its CUDA libraries
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
    except Exception as error:  # a broken package may raise anything
        if is_partial:
            raise diagnosis.partly_loaded(framework, str(error)) from error
        raise diagnosis.does_not_load(framework, worker, f"{type(error).__name__}: {error}") from error
    _refuse_impostor(framework, module, found)
    return found


def _is_partly_loaded(framework: str) -> bool:
    """Return whether an earlier import has failed: Python then removes the package, but not its submodules."""
    packages = {name.partition(".")[0] for name in list(sys.modules)}
    return any(package in packages and package not in sys.modules for package in _PACKAGES[framework])


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Deliver an interrupt at the end of the context: a half-imported framework can't be imported again.

    Removing its modules first does not help: its C++ libraries end the process if they are initialized twice.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    arrived: list[float] = []

    def hold(number: int, frame: FrameType | None) -> None:
        arrived.append(time.monotonic())
        if arrived[-1] - arrived[0] >= _HOLD_S:
            before(number, frame)

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if arrived:
        signal.raise_signal(signal.SIGINT)


def _refuse_impostor(framework: str, module: str, found: ModuleType) -> None:
    """Raise an error if the module is a user's own file or folder instead of the framework.

    A framework is a package with an ``__init__.py``.
    """
    is_package, file = hasattr(found, "__path__"), getattr(found, "__file__", None)
    if "." not in module and not (is_package and file):
        raise diagnosis.hidden(framework, module, file or next(iter(found.__path__), module))
