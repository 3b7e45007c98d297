"""The page reference/rest-api.md, from server/rest-api.yml."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from pages.tables import page, table_of

VERBS = ("get", "post", "put", "patch", "delete")


RECORDS = "Fields marked with `?` are optional."


def rest_api_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    text = resources.files("jupyter_tpu").joinpath("server/rest-api.yml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    introduction = document["info"]["description"].strip()
    return page(generated, "# REST API", introduction, routes_section(document), records_section(document))


def routes_section(document: dict[str, Any]) -> str:
    prefix = document["servers"][0]["url"]
    header = ("route", "meaning", "body", "response")
    return f"## Routes\n\nAll routes start with `{prefix}`.\n\n" + table_of(header, routes_of(document))


def routes_of(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for path, operations in document["paths"].items():
        for verb in VERBS:
            if verb in operations:
                operation = operations[verb]
                yield (
                    f"`{verb.upper()} {path}`",
                    operation.get("summary", ""),
                    body_of(operation),
                    answer_of(operation, document),
                )


def body_of(operation: dict[str, Any]) -> str:
    return type_in(operation.get("requestBody", {}))


def answer_of(operation: dict[str, Any], document: dict[str, Any]) -> str:
    """The answers that are no errors, such as ``202 Intent``."""
    shared = document["components"]["responses"]
    good = ((code, answer) for code, answer in operation["responses"].items() if code.startswith("2"))
    found = ((code, shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer) for code, answer in good)
    return ", ".join(f"{code} {type_in(answer)}".strip() for code, answer in found)


def type_in(message: dict[str, Any]) -> str:
    """The type of the JSON that a request or an answer carries."""
    return type_of(message.get("content", {}).get("application/json", {}).get("schema", {}))


def records_section(document: dict[str, Any]) -> str:
    schemas = document["components"]["schemas"].items()
    parts = (f"### {name}\n\n{record_part(schema)}" for name, schema in schemas)
    return page("## Records", RECORDS, *parts).rstrip("\n")


def record_part(schema: dict[str, Any]) -> str:
    description = " ".join(schema.get("description", "").split())
    fields = list(fields_of(schema))
    table = table_of(("field", "type", "meaning"), fields) if fields else f"Type: {type_of(schema)}"
    return "\n\n".join(filter(None, [description, table]))


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for part in schema.get("allOf", []):
        yield from fields_of(part)
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        shown = name if name in required else f"{name}?"
        yield f"`{shown}`", type_of(field), field.get("description", "")


def type_of(schema: dict[str, Any]) -> str:
    """A type in words: a link to a record, a list, the values, or JSON's own name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(map(type_of, schema[several]))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    types = schema.get("type", "")
    return types if isinstance(types, str) else " or ".join(types)
