"""The catalogues of translations follow the sources, are complete, and reach JupyterLab."""

from __future__ import annotations

import json
import re

import catalogue
import pytest
from jupyterlab_server.translation_utils import get_installed_packages_locale


@pytest.fixture(scope="module")
def problems() -> list[str]:
    return catalogue.main(check=True).splitlines()


def test_catalogues_are_in_step_with_the_sources(problems):
    assert [line for line in problems if catalogue.UNTRANSLATED not in line] == []


@pytest.mark.nightly  # who adds a text need not know each language; a release has all translations
def test_every_text_is_translated(problems):
    assert problems == []


def test_no_space_separates_a_chinese_duration_from_the_next_word():
    text = (catalogue.LOCALE / "zh_CN/LC_MESSAGES/jupyter_tpu.po").read_text(encoding="utf-8")
    assert re.findall(r"\{duration\} [\u4e00-\u9fff].*", text) == []


def test_jupyterlab_finds_the_translations():
    found, messages = get_installed_packages_locale("zh_CN")
    assert not messages
    assert found["jupyter_tpu"] == json.loads((catalogue.LOCALE / "zh_CN/LC_MESSAGES/jupyter_tpu.json").read_text())
