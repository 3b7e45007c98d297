"""The events this extension emits; the YAML files beside this one are their schemas.

The events of kernels and links are emitted, and so named, in `jupyter_tpu.kernels.progress`.
"""

from __future__ import annotations

from pathlib import Path

FLEET_EVENT = "https://events.jupyter.org/jupyter_tpu/fleet/v1"

SCHEMA_FILES = tuple(Path(__file__).with_name(name) for name in ("fleet.yaml", "kernel.yaml", "link.yaml"))
