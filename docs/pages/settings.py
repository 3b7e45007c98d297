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
TRAITS = """Set these traits in a Jupyter configuration file, such as `jupyter_server_config.py`
(`c.TPUApp.keep_kernels = False`), or on the command line (`jupyter lab --TPUApp.keep_kernels=False`)."""
LAB = "Change these settings in JupyterLab under *Settings → Settings Editor*."
ENVIRONMENT = """Set these variables in the environment in which you start `jupyter lab`, `jupyter tpu` or VS Code,
unless the table states otherwise.

`jupyter tpu` uses the language selected by `LANGUAGE`, `LC_ALL`, `LC_MESSAGES` or `LANG`: English, or Simplified
Chinese (`zh_CN`). Its `--json` output, the journal and agent reports are in English.

In a kernel on a node, `%tpu`, `%tpu_init` and the widgets use the language that is set in JupyterLab or Notebook, or
otherwise the language of the program that starts the kernel. The kernel receives it as `JPY_TPU_LANGUAGE`; variables
that your own programs read, such as `LANG`, are not changed."""

VARIABLES = {
    "JUPYTER_TPU_PROJECT": "Google Cloud project. Default: the project of the credentials.",
    "JUPYTER_TPU_ENDPOINT": "gRPC address of the cloud, `HOST:PORT`. Default: Google's address.",
    "JUPYTER_TPU_TRUST_ENDPOINT": "Host outside Google's domains that may receive your Google Cloud credentials.",
    "JUPYTER_TPU_EMULATOR": "Address of the emulated cloud's control API, `http://HOST:PORT`.",
    "JUPYTER_TPU_EMULATOR_TOKEN_FILE": "File with the token of the emulated cloud, if it requires one.",
    "JUPYTER_TPU_CREDENTIALS": "Credentials file, instead of Application Default Credentials; see `jupyter tpu setup`.",
    "JUPYTER_TPU_LOCALE": "For translators: folder with catalogues, `LANGUAGE/LC_MESSAGES/jupyter_tpu.mo`.",
    "JUPYTER_TPU_BILLING_EXPORT": "BigQuery table of your billing export, for `jupyter tpu cost --billed`.",
    "JUPYTER_TPU_DATA_DIR": "Folder for the journal and keys. Default: `tpu` in Jupyter's data folder.",
    "JUPYTER_TPU_FORWARD_ENV": "Comma-separated names of environment variables to pass to kernels on nodes.",
    "JUPYTER_TPU_END_ALONE_AFTER_S": "Idle seconds until a kernel whose launcher was killed is shut down; 0 means "
    "never.",
    "JUPYTER_TPU_PATIENCE_S": "In the kernel: seconds that `%tpu` waits for the agent. Default: 2.",
    "JUPYTER_TPU_GRACE_S": "In the kernel of a slice: seconds until the other workers are interrupted after one has "
    "failed. Default: 2.",
    "JUPYTER_TPU_LOST_WORKER_S": "In the kernel of a slice: seconds until the kernel exits after a worker is lost "
    "while worker 0 hangs; 0 means never. Default: 10.",
    "JUPYTER_TPU_WORKER_LOCK": "Lock file for packages on workers. Set it there and, for `--push`, on your machine.",
}
"""What users may set; other variables pass values between our own processes."""


def settings_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    rows = [row for each in (TPUApp, KernelSocket, TPUProvisioner) for row in own_traits(each)]
    traits = table_of(("trait", "meaning"), rows)
    lab = table_of(("setting", "meaning"), lab_settings())
    variables = table_of(("variable", "meaning"), ((f"`{name}`", meaning) for name, meaning in VARIABLES.items()))
    return page(
        *(generated, "# Settings"),
        *("## Settings of the server", TRAITS, traits),
        *("## Settings of JupyterLab", LAB, lab),
        *("## Environment variables", ENVIRONMENT, variables),
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
