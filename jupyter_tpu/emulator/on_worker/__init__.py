"""Modules that processes on an emulated worker import: only this folder of the package is on their PYTHONPATH.

They run in any Python of the worker (3.10 or later), so they may use only the standard library.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
