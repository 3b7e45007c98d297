"""The page reference/settings.md: traits of the server and settings of JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.server.app import TPUApp
from jupyter_tpu.server.websocket.kernel_socket import KernelSocket
from pages.tables import page, table_of

SCHEMAS = Path(__file__).parents[2] / "labextension" / "schema"
TRAITS = """These go into a configuration file of Jupyter, such as `jupyter_server_config.py`, as
`c.TPUApp.keep_kernels = False`, or onto the command line, as `jupyter lab --TPUApp.keep_kernels=False`."""
LAB = "These are in JupyterLab under *Settings → Settings Editor*."


def settings_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    rows = [row for each in (TPUApp, KernelSocket, TPUProvisioner) for row in own_traits(each)]
    traits = table_of(("trait", "meaning"), rows)
    lab = table_of(("setting", "meaning"), lab_settings())
    return page(
        generated, "# Settings", "## Settings of the server", TRAITS, traits, "## Settings of JupyterLab", LAB, lab
    )


def lab_settings() -> Iterator[tuple[str, str]]:
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        for name, setting in schema["properties"].items():
            default = json.dumps(setting["default"])
            yield f"{schema['title']}: `{name}`", f"{setting['description']} Default: `{default}`."


def own_traits(configurable: Any) -> Iterator[tuple[str, str]]:
    for name, trait in sorted(configurable.class_traits(config=True).items()):
        if trait.this_class is configurable:
            yield f"`{configurable.__name__}.{name}`", trait.help
