"""Translate texts with gettext catalogues; environment variables choose the language. English needs no catalogue.

The source code contains the English texts, marked with `_`. labextension/catalogue.py writes the catalogues,
`locale/LANGUAGE/LC_MESSAGES/jupyter_tpu.mo`. JSON, the journal and messages to a worker remain in English.
"""

from __future__ import annotations

import gettext
import os
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path

from jupyter_tpu.errors import Text

DOMAIN = "jupyter_tpu"
FOLDER_VARIABLE = "JUPYTER_TPU_LOCALE"
"""The variable with a folder of catalogues that are used instead of the package's; for translators."""

LANGUAGE_VARIABLE = "JPY_TPU_LANGUAGE"
"""The variable with the user's language, for kernels on a node. LANGUAGE would also change the output of `!git`."""

_kept_english = False
_VARIABLES = (LANGUAGE_VARIABLE, "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
# A piece of text between possible line breaks: an East Asian character with the closing punctuation after it, which
# must not start a line; a word; or white space. Compiled on first use: its large range takes several milliseconds, and
# most processes wrap no text.
_PIECES = r"[\u2e80-\uffff][\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]*|[^\s\u2e80-\uffff]+|\s+"


def _(text: str, /, **arguments: object) -> str:
    """Return the text in the user's language, with the arguments filled in.

    Args:
        text: a template in English, or a `Text`, which may already have arguments. An argument that is a `Text` is
            translated too.
        arguments: the values of the template's placeholders, by name. A value that is not a `Text` is inserted
            unchanged.
    """
    made = text.with_arguments(**arguments) if isinstance(text, Text) else Text(text, **arguments)
    catalogue = None if _kept_english else _catalogue(*_languages())
    # gettext stores the catalogue's header under the empty text
    if catalogue is None or not made.template:
        return str(made)
    shown = {name: _(value) if isinstance(value, Text) else value for name, value in made.arguments.items()}
    return str(Text(catalogue.gettext(made.template), **shown))


def shown(text: str) -> str:
    """Return a `Text` in the user's language. Return a plain string unchanged, because it may be data."""
    return _(text) if isinstance(text, Text) else text


@contextmanager
def command_line_language(*, is_english: bool) -> Iterator[None]:
    """Set the language of a command line, including argparse's own texts such as "usage".

    Args:
        is_english: whether to keep the English texts, because a program reads the output.
    """
    global _kept_english
    # a program may run a command in its own process, so restore its language afterwards
    before = _kept_english, gettext.textdomain()
    _kept_english = is_english
    if not is_english and _catalogue(*_languages()) is not None:
        gettext.bindtextdomain(DOMAIN, _folder())
        gettext.textdomain(DOMAIN)
    try:
        yield
    finally:
        _kept_english = before[0]
        gettext.textdomain(before[1])


def chosen_languages(environ: Mapping[str, str]) -> str:
    """Return the user's languages from the environment, such as ``zh_CN:en``; may be empty."""
    return next(filter(None, map(environ.get, _VARIABLES)), "")


@cache
def _catalogue(*languages: str) -> gettext.NullTranslations | None:
    return gettext.translation(DOMAIN, _folder(), languages, fallback=True) if languages else None


def _languages() -> list[str]:
    """Return the languages that the user prefers over English, best first. English needs no catalogue."""
    chosen = chosen_languages(os.environ)
    return list(takewhile(lambda each: not re.match(r"(en|C|POSIX)\b|en_", each), filter(None, chosen.split(":"))))


def _folder() -> str:
    return os.environ.get(FOLDER_VARIABLE) or str(Path(__file__).with_name("locale"))


# -- columns of a terminal


def width_of(text: str) -> int:
    """Return the width of the text in columns. An East Asian wide character takes two columns."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def padded(text: str, width: int) -> str:
    """Pad the text with spaces to at least `width` columns."""
    return text + " " * (width - width_of(text))


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a paragraph at `width` columns, including East Asian text, which has no spaces."""
    text = " ".join(text.split())
    if width_of(text) == len(text):
        return textwrap.wrap(text, width)
    lines = [""]
    for piece in re.findall(_PIECES, text):
        if lines[-1] and width_of(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines]
