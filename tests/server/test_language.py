"""The language of a kernel on a node is that of the JupyterLab from which it is started."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.server.app import front_end_language

if TYPE_CHECKING:
    from conftest import Cloud, OpenPages, StartServer

ZONE = "us-central1-a"
NODE = {"node_id": "my-node", "zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
PLACE = Path("@jupyterlab", "translation-extension", "plugin.jupyterlab-settings")


@pytest.mark.parametrize("application", ["jupyterlab.labapp:LabApp", "notebook.app:JupyterNotebookApp"])
@pytest.mark.parametrize(
    ("content", "language"), [('{"locale": "zh_CN"} // chosen', "zh_CN"), ('{"locale": "default"}', ""), (None, "")]
)
def test_the_language_is_the_one_that_is_set_in_the_front_end(
    tmp_path: Path, application: str, content: str | None, language: str
) -> None:
    settings = tmp_path / PLACE
    settings.parent.mkdir(parents=True)
    if content is not None:
        settings.write_text(content)
    app = pkgutil.resolve_name(application)()  # a second of imports, which only this test needs
    app.user_settings_dir = str(tmp_path)
    server = SimpleNamespace(extension_manager=SimpleNamespace(extension_apps={app.name: {app}, "another": {object()}}))
    assert front_end_language(server) == language


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_kernel_that_jupyterlab_starts_speaks_jupyterlabs_language(
    start_server: StartServer, cloud: Cloud, tmp_path: Path, open_page: OpenPages
) -> None:
    settings = tmp_path / PLACE
    settings.parent.mkdir(parents=True)
    settings.write_text('{"locale": "zh_CN"}')
    lab = "--ServerApp.jpserver_extensions={'jupyterlab': True, 'jupyter_tpu': True}"
    server = start_server(lab, LANGUAGE="en", JUPYTERLAB_SETTINGS_DIR=str(tmp_path), **cloud.variables)
    async with server.events() as events:
        server.tpu("POST", "nodes", NODE)
        await events.until_true(lambda: any(each["kernelspec"] for each in server.tpu("GET", "nodes").json["nodes"]))
    [node] = server.tpu("GET", "nodes").json["nodes"]
    kernel_id = server.request("POST", "api/kernels", {"name": node["kernelspec"]}).json["id"]
    page = await open_page(server, kernel_id)
    asked = page.execute("print(__import__('os').environ['JPY_TPU_LANGUAGE'])")
    await page.until_idle(asked)
    assert page.text(asked) == "zh_CN\n"
    server.request("DELETE", f"api/kernels/{kernel_id}")
    server.tpu("DELETE", f"nodes/{ZONE}/my-node")
