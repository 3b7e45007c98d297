"""Import a framework with the right variables in the environment, or say why that does not go."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

from jupyter_tpu.notebook.node.worker import ThisWorker
from jupyter_tpu.notebook.tpu_init import diagnosis
from jupyter_tpu.notebook.tpu_init.known_errors import recognise


class _Before:
    """What the variables that we have set said before; None: they were not there."""

    variables: ClassVar[dict[str, str | None]] = {}


def set_environment(variables: Mapping[str, str]) -> None:
    """Before the first import: frameworks read their environment once."""
    for name in variables:
        _Before.variables.setdefault(name, os.environ.get(name))
    os.environ.update(variables)


@contextmanager
def kept_if_started() -> Iterator[None]:
    """Take back what is set within by `set_environment` unless all goes well; what a framework sets itself stays.

    One chip of several, for example, that was set for one framework would mislead the next one.
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
    """A module of the framework.

    Raises:
        AcceleratorFailed: it is not installed, does not load, or something else has its name.
    """
    importlib.invalidate_caches()  # %pip may have installed it a moment ago
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if recognise(str(error)):
            raise diagnosis.diagnose_start(str(error), worker, framework) from error
        raise diagnosis.missing(framework, worker, str(error)) from error
    except (ImportError, RuntimeError, ValueError, TypeError, OSError) as error:
        # jax and jaxlib refuse each other, PyTorch misses its libraries, PyTorch/XLA its metadata
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
    except Exception as error:  # whatever the code of a broken package does
        raise diagnosis.does_not_load(framework, worker, f"{type(error).__name__}: {error}") from error
    _refuse_impostor(framework, module, found)
    return found


def _refuse_impostor(framework: str, module: str, found: ModuleType) -> None:
    """All of them are packages with an ``__init__.py``: a module or a bare folder of that name is the user's own."""
    is_package, file = hasattr(found, "__path__"), getattr(found, "__file__", None)
    if "." not in module and not (is_package and file):
        raise diagnosis.hidden(framework, module, file or next(iter(found.__path__), module))
