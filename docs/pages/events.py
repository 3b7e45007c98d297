"""The page reference/events.md, from the schemas in server/events/."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from pages.tables import page, table_of

INTRODUCTION = """The Jupyter server emits these events on its event bus. To receive them, connect to the WebSocket
`/api/events/subscribe`, which requires the server's token, or use `jupyter_events` in Python. Each event contains all
of its fields."""


def events_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    files = sorted(each.name for each in resources.files("jupyter_tpu.server.events").iterdir())
    texts = [
        resources.files("jupyter_tpu.server.events").joinpath(name).read_text(encoding="utf-8")
        for name in files
        if name.endswith(".yaml")
    ]
    return page(generated, "# Events", INTRODUCTION, *(event_part(yaml.safe_load(text)) for text in texts))


def event_part(schema: dict[str, Any]) -> str:
    fields = table_of(("field", "type", "meaning"), fields_of(schema))
    return f"## {schema['title']}\n\n`{schema['$id']}`\n\n{schema['description'].strip()}\n\n{fields}"


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, field in schema["properties"].items():
        yield f"`{name}`", type_of(field), " ".join([field["title"] + ".", field.get("description", "")]).strip()


def type_of(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    types = field["type"]
    return types if isinstance(types, str) else " or ".join(types)
