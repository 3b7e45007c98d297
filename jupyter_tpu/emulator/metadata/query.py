"""Find values in a metadata tree and format the reply as text or JSON, with its ETag. Pure."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.emulator.metadata.tree import Announcement, Named, Numbered, OnDemand
from jupyter_tpu.emulator.resources.behaviours import assumed, documented

TEXT = "application/text"
JSON = "application/json"
HTML = "text/html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply of the metadata server; `location` is set for a redirect, and `etag` for metadata."""

    status: int = 200
    body: str = ""
    content_type: str = TEXT
    etag: str = ""
    location: str = ""


@documented(
    "metadata-queries",
    "A directory is listed with one name per line and a slash after directories. recursive=true returns the "
    "whole tree as JSON, or as text with one value per line if alt=text is set. alt=json returns a single value"
    " as JSON. JSON names are in camelCase.",
    source="cloud.google.com/compute/docs/metadata/querying-metadata",
)
def reply_to(tree: Mapping[str, Any], path: str, query: Mapping[str, str]) -> Reply:
    """Return the reply for a path below ``/computeMetadata/v1/``."""
    found = find(tree, path)
    is_recursive = query.get("recursive", "").lower() == "true"
    if found is None or isinstance(found, OnDemand):
        return not_found(path)
    # the real server redirects too
    if is_directory(found) and path and not path.endswith("/") and not is_recursive:
        return Reply(status=301, location=f"/computeMetadata/v1/{path}/")
    text, content_type = _written(found, is_recursive, query.get("alt", ""))
    return Reply(body=text, content_type=content_type, etag=_etag(text))


def find(tree: Mapping[str, Any], path: str) -> Any:
    """Return the value or directory at a path, or None if the path doesn't exist."""
    place: Any = tree
    for name in filter(None, path.split("/")):
        place = place.get(name) if isinstance(place, dict) else None
    return place


def is_directory(found: Any) -> bool:
    """Return whether a value is a directory."""
    return isinstance(found, dict) and not isinstance(found, Announcement)


def _written(found: Any, is_recursive: bool, alt: str) -> tuple[str, str]:
    if is_directory(found) and not is_recursive:
        return _listing(found, alt)
    if alt == "json" or (alt != "text" and isinstance(found, dict)):
        return json.dumps(as_json(found)), JSON
    return ("\n".join(_lines(found, "")) if isinstance(found, dict) else _text(found)), TEXT


def _listing(found: Mapping[str, Any], alt: str) -> tuple[str, str]:
    names = [f"{name}/" if is_directory(found[name]) else name for name in sorted(found)]
    return (json.dumps(names), JSON) if alt == "json" else ("".join(f"{name}\n" for name in names), TEXT)


def as_json(value: Any) -> Any:
    """Convert a value or directory to JSON data, without entries that are generated on request."""
    # numbered directories are lists in JSON, as the real server shows them
    if isinstance(value, Numbered):
        return [as_json(each) for each in value.values()]
    if isinstance(value, dict):
        verbatim = isinstance(value, Named | Announcement)
        items = sorted(value.items())
        return {
            name if verbatim else _camel(name): as_json(each) for name, each in items if not isinstance(each, OnDemand)
        }
    return value


def _lines(value: Any, path: str) -> Iterator[str]:
    """Yield a line such as ``attributes/name value`` for each value."""
    if isinstance(value, dict):
        for name, each in sorted(value.items()):
            yield from _lines(each, f"{path}/{name}" if path else name)
    elif not isinstance(value, OnDemand):
        yield f"{path} {_text(value)}"


def _text(value: Any) -> str:
    return "".join(f"{each}\n" for each in value) if isinstance(value, list) else str(value)


def _camel(name: str) -> str:
    return re.sub("-([a-z])", lambda match: match[1].upper(), name)


@assumed("metadata-etag", "An ETag has 16 hexadecimal digits, and identical responses have the same ETag.")
def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@assumed("metadata-missing", "A request for a missing path gets 404 and an HTML page.")
def not_found(path: str) -> Reply:
    """Return the reply for a path that does not exist."""
    shown = html.escape(f"/computeMetadata/v1/{path}"[:300])
    return error_page(404, "Not Found", f"The requested URL <code>{shown}</code> was not found on this server.")


def error_page(status: int, title: str, text: str) -> Reply:
    """Return an error page like those of Google's servers; `text` is HTML."""
    body = f"<!DOCTYPE html>\n<html lang=en>\n<title>Error {status} ({title})!!1</title>\n<p><b>{status}.</b> {text}\n"
    return Reply(status=status, body=body, content_type=HTML)
