"""The events of this extension; the YAML files in this folder are their schemas.

`jupyter_tpu.kernels.progress` emits the events of kernels and links and defines their ids.
"""

from __future__ import annotations

from pathlib import Path

FLEET_EVENT = "https://events.jupyter.org/jupyter_tpu/fleet/v1"

SCHEMA_FILES = tuple(Path(__file__).with_name(name) for name in ("fleet.yaml", "kernel.yaml", "link.yaml"))
