"""Import a framework with the right environment variables, or explain why this fails."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

from jupyter_tpu.notebook.node.this_worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.known_errors import find_known_error


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
        AcceleratorFailed: the module is not installed, does not load, or is hidden by a file or folder with the same
            name.
    """
    importlib.invalidate_caches()  # %pip may have just installed the module
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if find_known_error(str(error)):
            raise diagnosis.diagnose_start(str(error), worker, framework) from error
        raise diagnosis.missing(framework, worker, str(error)) from error
    except (ImportError, RuntimeError, ValueError, TypeError, OSError) as error:
        # for example, jax and jaxlib have different versions, or PyTorch lacks its CUDA libraries
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
    except Exception as error:  # a broken package may raise anything
        raise diagnosis.does_not_load(framework, worker, f"{type(error).__name__}: {error}") from error
    _refuse_impostor(framework, module, found)
    return found


def _refuse_impostor(framework: str, module: str, found: ModuleType) -> None:
    """Raise an error if the module is a user's own file or folder instead of the framework.

    A framework is a package with an ``__init__.py``.
    """
    is_package, file = hasattr(found, "__path__"), getattr(found, "__file__", None)
    if "." not in module and not (is_package and file):
        raise diagnosis.hidden(framework, module, file or next(iter(found.__path__), module))
