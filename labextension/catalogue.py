"""Keep the catalogues of translations in step with the texts in the sources.

Usage: python labextension/catalogue.py [--check], from the root of the repository.

Texts come from four places: the messages of the front end (src/messages), the titles and descriptions of its
settings (schema), the errors, the command line and the magics in Python (templates and constant texts, found by
error_texts.py), and the scripts of the widgets (jupyter_tpu/notebook/widgets).
Each language has a file for its translators, jupyter_tpu/locale/LANGUAGE/LC_MESSAGES/jupyter_tpu.po: new texts are
added to it without a translation, and texts that no longer exist are removed. Three files beside it are written from
it: jupyter_tpu.json, which JupyterLab loads; jupyter_tpu.mo, which the command line loads; and node.mo, which goes to
the nodes with the agent's code and has only the texts of that code.

With --check nothing is written. The exit code is 1 if a file is out of date, or a text has no translation or one with
other placeholders.
"""

from __future__ import annotations

import io
import json
import re
import struct
import sys
from collections.abc import Container, Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from error_texts import MODULES, PACKAGE, error_templates
from jupyterlab_server.translation_utils import DEFAULT_SCHEMA_SELECTORS

from jupyter_tpu.agent.archive import CATALOGUE, packed_names

ROOT = Path(__file__).parents[1]
LOCALE = ROOT / "jupyter_tpu" / "locale"
DOMAIN = "jupyter_tpu"
"""The name by which the front end loads its texts, and JupyterLab finds those of its settings."""

GRAMMAR = ROOT / "jupyter_tpu" / "commands" / "grammar.py"
ARGPARSE_TEXTS: tuple[str | tuple[str, str], ...] = (
    "usage: ",
    "positional arguments",
    "options",
    "%(heading)s:",
    "show this help message and exit",
    "argument %(argument_name)s: %(message)s",
    "unrecognized arguments: %s",
    "not allowed with argument %s",
    "ignored explicit argument %r",
    "the following arguments are required: %s",
    "one of the arguments %s is required",
    "expected one argument",
    "expected at most one argument",
    "expected at least one argument",
    ("expected %s argument", "expected %s arguments"),
    "ambiguous option: %(option)s could match %(matches)s",
    "invalid %(type)s value: %(value)r",
    "invalid choice: %(value)r (choose from %(choices)s)",
)
"""The texts of the standard library that a command line shows, in Python 3.11 to 3.14."""

UNTRANSLATED = "no translation of"

# Dates would make each run another file; Babel writes placeholders for names and addresses.
_NOT_KEPT = (b'"POT-Creation', b'"PO-Revision', b'"Generated-By', b'"Last-Translator', b'"Report-Msgid-Bugs')
# Of the front end %1, of Python {name}, of argparse %s and %(name)s.
_PLACEHOLDER = re.compile(r"%\d|%[rs]|%\(\w+\)[rs]|\{\w+\}")
# What only a terminal or a cell shows.
_TERMINAL = ("jupyter_tpu/cli/", "jupyter_tpu/commands/", "jupyter_tpu/notebook/")


def main(check: bool) -> str:
    """Write or check every catalogue; return what is wrong, a line each."""
    texts, problems = template(), list[str]()
    for path in sorted(LOCALE.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        language = path.parts[-3]
        catalog = read_po(io.BytesIO(path.read_bytes()), locale=language, domain=DOMAIN)
        # Babel's guesses from similar texts would pass for translations.
        catalog.update(texts, no_fuzzy_matching=True)
        catalog.obsolete.clear()
        problems += [f"{language}: {problem}" for problem in _problems(catalog)]
        written = {
            f"{DOMAIN}.po": _po(catalog),
            f"{DOMAIN}.json": _json(catalog, language),
            f"{DOMAIN}.mo": mo(catalog),
            CATALOGUE: mo(catalog, {f"jupyter_tpu/{name}" for name in packed_names()}),
        }
        for target, content in ((path.with_name(name), content) for name, content in written.items()):
            if not check:
                target.write_bytes(content)
            elif not target.exists() or target.read_bytes() != content:
                problems.append(f"{target.relative_to(ROOT)} is out of date: run python labextension/catalogue.py")
    return "\n".join(problems)


def template() -> Catalog:
    """Return all texts in the order of the files, each once, with the files where it stands."""
    catalog = Catalog(domain=DOMAIN, project="jupyter_tpu", fuzzy=False)
    for path, text, context in (*_messages(), *_settings(), *_errors(), *_widgets()):
        # Without line numbers, which would change with every edit.
        catalog.add(text, locations=[(path.relative_to(ROOT).as_posix(), 0)], context=context)
    return catalog


def _messages() -> Iterator[tuple[Path, str | tuple[str, ...], None]]:
    keywords = {"trans.__": None, "trans._n": (1, 2)}
    for path in sorted((ROOT / "labextension" / "src" / "messages").glob("*.ts")):
        found = extract("javascript", io.BytesIO(path.read_bytes()), keywords=keywords, options={"jsx": "true"})
        yield from ((path, text, None) for _, text, _, _ in found)


def _settings() -> Iterator[tuple[Path, str, str]]:
    selectors = {re.compile(f"/{pattern}"): context for pattern, context in DEFAULT_SCHEMA_SELECTORS.items()}
    for path in sorted((ROOT / "labextension" / "schema").glob("*.json")):
        for place, text in _leaves(json.loads(path.read_text(encoding="utf-8"))):
            contexts = [context for selector, context in selectors.items() if selector.fullmatch(place)]
            yield from ((path, text, context) for context in contexts[:1])


def _leaves(data: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string of a JSON value with the path to it."""
    if isinstance(data, str):
        yield place, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from _leaves(value, f"{place}/{key}")


def _errors() -> Iterator[tuple[Path, str | tuple[str, str], None]]:
    for text in ARGPARSE_TEXTS:
        yield GRAMMAR, text, None
    for path in MODULES:
        yield from ((path, text, None) for text in error_templates(path))


def _widgets() -> Iterator[tuple[Path, str, None]]:
    for path in sorted((PACKAGE / "notebook" / "widgets").glob("*.js")):
        found = extract("javascript", io.BytesIO(path.read_bytes()), keywords={"translated": None})
        yield from ((path, str(text), None) for _, text, _, _ in found)


def _problems(catalog: Catalog) -> Iterator[str]:
    for message in filter(lambda each: each.id, catalog):
        if not all(_translations(message)):
            yield f"{UNTRANSLATED} {message.id!r}"
            continue
        placeholders = set(_PLACEHOLDER.findall(_source(message)))
        if any(set(_PLACEHOLDER.findall(each)) != placeholders for each in _translations(message)):
            yield f"other placeholders in the translation of {message.id!r}"


def _translations(message: Message) -> tuple[str, ...]:
    return message.string if isinstance(message.string, tuple | list) else (message.string,)


def _source(message: Message) -> str:
    """Return the text whose placeholders a translation needs: of two, the plural, which has the number too."""
    return message.id[-1] if isinstance(message.id, tuple | list) else message.id


def _po(catalog: Catalog) -> bytes:
    written = io.BytesIO()
    write_po(written, catalog, width=120, omit_header=False, include_lineno=False, ignore_obsolete=True)
    lines = written.getvalue().splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(_NOT_KEPT))


def _json(catalog: Catalog, language: str) -> bytes:
    """Return what JupyterLab's `get_language_pack` reads: each text to its translations, with a head at ``""``."""
    head = {
        "domain": DOMAIN,
        "language": language.replace("_", "-"),
        "plural_forms": catalog.plural_forms,
        "version": "0",
    }
    is_shown = {message.id: any(not path.startswith(_TERMINAL) for path, _ in message.locations) for message in catalog}
    texts = {key_of(message): _forms(message) for message in _translated(catalog) if is_shown[message.id]}
    return (json.dumps({"": head, **texts}, ensure_ascii=False, indent=0) + "\n").encode()


def mo(catalog: Catalog, paths: Container[str] = ()) -> bytes:
    """Return the translations of Python's texts, as gettext reads them; Babel's own writer would add dates.

    Args:
        catalog: all translations.
        paths: the only files whose texts are wanted; empty: all of Python.
    """
    head = f"Content-Type: text/plain; charset=UTF-8\nPlural-Forms: {catalog.plural_forms}\n"
    texts = {"": head}
    for message in _translated(catalog):
        if any(path in paths if paths else path.startswith("jupyter_tpu/") for path, _ in message.locations):
            forms = message.id if isinstance(message.id, tuple | list) else (message.id,)
            texts["\0".join(forms)] = "\0".join(_translations(message))
    pairs = sorted((source.encode(), text.encode()) for source, text in texts.items())
    return _tables(pairs)


def _tables(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Return the file: seven numbers, the lengths and offsets of the texts and of their translations, then those."""
    count, begin = len(pairs), 28
    offset, tables, content = begin + 16 * count, b"", b""
    for column in zip(*pairs, strict=True):
        for text in column:
            tables += struct.pack("<2I", len(text), offset + len(content))
            content += text + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, count, begin, begin + 8 * count, 0, offset) + tables + content


def _translated(catalog: Catalog) -> Iterator[Message]:
    return (message for message in catalog if message.id and all(_translations(message)))


def _forms(message: Message) -> list[str]:
    # JupyterLab takes a text with one form for one without plurals.
    forms = list(_translations(message))
    return [*forms, ""] if isinstance(message.id, tuple | list) and len(forms) == 1 else forms


def key_of(message: Message) -> str:
    text = message.id[0] if isinstance(message.id, tuple | list) else message.id
    return f"{message.context}\x04{text}" if message.context else text


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]) or None)
