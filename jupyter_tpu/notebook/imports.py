"""Import a framework with the right variables in the environment, or say why that does not go."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from jupyter_tpu.notebook import diagnosis
from jupyter_tpu.notebook.refusals import recognise
from jupyter_tpu.notebook.worker import ThisWorker


def set_environment(variables: Mapping[str, str]) -> None:
    """Before the first import: frameworks read their environment once."""
    os.environ.update(variables)


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
