"""Import a framework with the right variables in the environment, or say why that does not go."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
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
        AcceleratorFailed: it is not installed, or does not load.
    """
    importlib.invalidate_caches()  # %pip may have installed it a moment ago
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if recognise(str(error)):
            raise diagnosis.diagnose_start(str(error), worker, framework) from error
        raise diagnosis.missing(framework, worker, str(error)) from error
    except (ImportError, RuntimeError, ValueError, TypeError, OSError) as error:
        # jax and jaxlib refuse each other, PyTorch misses its libraries, PyTorch/XLA its metadata
        raise diagnosis.diagnose_start(str(error), worker, framework) from error
