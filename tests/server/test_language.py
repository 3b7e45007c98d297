"""The language of a kernel on a node is that of the JupyterLab from which it is started."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyterlab.labapp import LabApp
from notebook.app import JupyterNotebookApp

from jupyter_tpu.server.app import front_end_language


@pytest.mark.parametrize("application", [LabApp, JupyterNotebookApp])
@pytest.mark.parametrize(
    ("content", "language"), [('{"locale": "zh_CN"} // chosen', "zh_CN"), ('{"locale": "default"}', ""), (None, "")]
)
def test_the_language_is_the_one_that_is_set_in_the_front_end(
    tmp_path: Path, application: type, content: str | None, language: str
) -> None:
    settings = tmp_path / "@jupyterlab" / "translation-extension" / "plugin.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    if content is not None:
        settings.write_text(content)
    app = application()
    app.user_settings_dir = str(tmp_path)
    server = SimpleNamespace(extension_manager=SimpleNamespace(extension_apps={app.name: {app}, "another": {object()}}))
    assert front_end_language(server) == language
