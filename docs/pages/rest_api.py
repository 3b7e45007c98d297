"""The page reference/rest-api.md, from server/rest-api.yml."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from pages.tables import page, table_of

VERBS = ("get", "post", "put", "patch", "delete")


def rest_api_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    text = resources.files("jupyter_tpu").joinpath("server/rest-api.yml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    introduction = document["info"]["description"].strip()
    return page(generated, "# REST API", introduction, routes_section(document))


def routes_section(document: dict[str, Any]) -> str:
    prefix = document["servers"][0]["url"]
    return f"## Routes\n\nAll are below `{prefix}`.\n\n" + table_of(("route", "meaning"), routes_of(document))


def routes_of(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, operations in document["paths"].items():
        for verb in VERBS:
            if verb in operations:
                yield f"`{verb.upper()} {path}`", operations[verb].get("summary", "")
