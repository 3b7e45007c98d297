"""Modules that processes on an emulated worker import: the folder is on their PYTHONPATH, without our other code.

They run in any Python of the worker (3.10 or later), so they may use the standard library only.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
