"""What processes on an emulated worker import: it lies on their PYTHONPATH, apart from everything else of ours.

Runs in any Python of the worker (3.10 or later), so it may use the standard library only.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
