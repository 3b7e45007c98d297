"""Check that HTML closes all its elements, so that a browser shows what follows it outside of them.

A browser accepts any HTML: it ignores some tags, and reads others as text. This module accepts only HTML that every
browser reads in the same way: with well-formed tags, in the right order. It is pure.

A frame with any HTML (``<iframe sandbox srcdoc>``) can't take its place: JupyterLab removes frames from notebooks that
aren't trusted, and in a frame, a table has neither the theme's colours nor its own height.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache

_SPACE = r"[ \t\n\f\r]"
_ATTRIBUTE = (
    rf"""{_SPACE}+[^ \t\n\f\r"'<>/=]+(?:{_SPACE}*={_SPACE}*(?:"[^"]*"|'[^']*'|[^ \t\n\f\r"'<>=`][^ \t\n\f\r"'<>`]*))?"""
)
_TOKEN = re.compile(
    r"[^<]+|<(?![A-Za-z/!?])"
    r"|<!--(?!-?>)(?:(?!--!>).)*?-->|<![Dd][Oo][Cc][Tt][Yy][Pp][Ee][^>]*>|<\?[^>]*>"
    rf"|</(?P<end>[A-Za-z][\w:-]*){_SPACE}*>"
    rf"|<(?P<start>[A-Za-z][\w:-]*)(?:{_ATTRIBUTE})*{_SPACE}*(?P<is_closed>/?)>",
    re.DOTALL | re.ASCII,
)
# A script that ends only at the second end tag.
_SCRIPT_IN_COMMENT = re.compile(r"<!--(?:(?!-->).)*<script", re.DOTALL | re.IGNORECASE)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The names are those of https://html.spec.whatwg.org/multipage/parsing.html, and their obsolete companions.
_VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
# Elements whose end tag may be left out.
_OPTIONAL = _names("body caption colgroup dd dt head html li optgroup option p rb rp rt rtc tbody td tfoot th thead tr")
# Elements that a browser opens again if they are not closed in order.
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
# Elements that contain only text for some browsers, or in which SVG and MathML become HTML again: accept only text.
_TEXT = _names(
    "annotation-xml desc foreignobject iframe mi mn mo ms mtext noembed noframes noscript script style textarea title"
    " xmp"
)
_NONE: frozenset[str] = frozenset()
_NEVER = frozenset({"frameset", "plaintext", "template"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
# Elements whose start tag ends an open element of the same group.
_NOT_NESTED = {
    **{name: frozenset({name}) for name in ("a", "button", "form", "nobr")},
    **dict.fromkeys(_HEADINGS, _HEADINGS),
}
_LISTS = frozenset({"menu", "ol", "ul"})
_ROW_GROUPS = frozenset({"table", "tbody", "tfoot", "thead"})
# The parents of elements whose start tag ends open elements up to their parent. Outside of these, it would end others.
_PARENTS = {
    **dict.fromkeys(("caption", "colgroup", "tbody", "tfoot", "thead"), frozenset({"table"})),
    **dict.fromkeys(("td", "th"), _ROW_GROUPS | {"tr"}),
    "tr": _ROW_GROUPS,
    **dict.fromkeys(("dd", "dt"), frozenset({"dl"})),
    "li": _LISTS,
}
# A browser moves other elements out of these.
_ONLY_TABLE_PARTS = _ROW_GROUPS | {"colgroup", "tr"}
_IN_SELECT = frozenset({"hr", "optgroup", "option"})
# Elements that end SVG and MathML.
_NOT_IN_DRAWINGS = _names(
    "b big blockquote body br center code dd div dl dt em embed font h1 h2 h3 h4 h5 h6 head hr i img li listing menu"
    " meta nobr ol p pre ruby s small span strike strong sub sup table tt u ul var"
)


@lru_cache(maxsize=16)  # the same output is drawn many times
def is_complete(page: str) -> bool:
    """Return whether HTML closes all its elements in order, and no others."""
    elements = _OpenElements()
    position = 0
    while position < len(page):
        token = _TOKEN.match(page, position)
        if token is None:
            return False
        position = token.end()
        if end := token["end"]:
            if not elements.close(end.lower()):
                return False
        elif start := token["start"]:
            name, is_closed = start.lower(), bool(token["is_closed"])
            if not elements.may_contain(name):
                return False
            if name in _TEXT:
                length = 0 if is_closed else _length_of_text(page, position, name, is_drawing=elements.is_drawing)
                if not length:
                    return False
                position += length
            elif name not in _VOID and not (is_closed and elements.is_drawing) and not elements.open(name):
                return False
    return elements.are_closed


class _OpenElements:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._counts: dict[str, int] = {}  # only of elements that are open

    @property
    def is_drawing(self) -> bool:
        """Whether elements are SVG or MathML. Only there, `/>` closes an element."""
        return "svg" in self._counts or "math" in self._counts

    @property
    def are_closed(self) -> bool:
        return all(name in _OPTIONAL for name in self._names)

    def may_contain(self, name: str) -> bool:
        return not (
            name in _NEVER
            or not _NOT_NESTED.get(name, _NONE).isdisjoint(self._counts)
            or (name in _NOT_IN_DRAWINGS and self.is_drawing)
            or (name not in _IN_SELECT and "select" in self._counts)
        )

    def open(self, name: str) -> bool:
        """Open an element, and return whether it may be here."""
        if parents := _PARENTS.get(name):
            is_valid = self._close_optional(parents) and (self._last in parents or (name == "li" and not self._names))
        else:
            is_valid = self._last not in _ONLY_TABLE_PARTS
        if name == "p" and self._last == "p":
            self._pop()
        self._names.append(name)
        self._counts[name] = self._counts.get(name, 0) + 1
        return is_valid

    def close(self, name: str) -> bool:
        """Close the last element, and return whether it has this name."""
        return self._close_optional({name}) and bool(self._names) and self._pop() == name

    @property
    def _last(self) -> str:
        return self._names[-1] if self._names else ""

    def _close_optional(self, until: Set[str]) -> bool:
        """Close elements whose end tag was left out, and return whether a browser closes them here, too."""
        is_left_out = False
        while self._last not in until and self._last in _OPTIONAL:
            self._pop()
            is_left_out = True
        return not is_left_out or _FORMATTING.isdisjoint(self._counts)

    def _pop(self) -> str:
        name = self._names.pop()
        self._counts[name] -= 1
        if not self._counts[name]:
            del self._counts[name]
        return name


def _length_of_text(page: str, begin: int, name: str, *, is_drawing: bool) -> int:
    """Return the length of an element's text with its end tag; 0 if browsers may find another end."""
    end = re.compile(rf"</{name}(?={_SPACE}|[/>])", re.IGNORECASE).search(page, begin)
    tag = _TOKEN.match(page, end.start()) if end else None
    if not end or not tag:
        return 0
    text = page[begin : end.start()]
    is_code = name in ("script", "style") and not is_drawing
    if _SCRIPT_IN_COMMENT.search(text) if is_code else "<" in text:
        return 0
    return tag.end() - begin
