"""The catalogues of translations follow the sources, and JupyterLab finds them."""

from __future__ import annotations

import json

import catalogue
from jupyterlab_server.translation_utils import get_installed_packages_locale


def test_jupyterlab_finds_the_translations():
    found, messages = get_installed_packages_locale("zh_CN")
    assert not messages
    assert found["jupyter_tpu"] == json.loads((catalogue.LOCALE / "zh_CN/LC_MESSAGES/jupyter_tpu.json").read_text())
