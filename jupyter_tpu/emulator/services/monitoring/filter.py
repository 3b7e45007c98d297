"""Filters of Cloud Monitoring: comparisons of a series' metric and resource, joined by AND, OR, NOT and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.services.requests.errors import invalid_argument

Series = Mapping[str, Any]
Test = Callable[[Series], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<op>!=|=~|!~|>=|<=|=|:|>|<)|(?P<mark>[(),-])|"(?P<text>(?:[^"\\]|\\.)*)"|'(?P<quoted>[^']*)'"""
    r"""|(?P<word>[\w*/]+(?:[.-][\w*/]+)*(?:\."[^"]*")?))"""
)
_SELECTOR = re.compile(r'(metric|resource)\.(?:type|labels?\."?([\w-]+)"?)|project')
# Our choices: they bound the work of parsing, and the recursion of the parser.
_LONGEST = 4096
_DEEPEST = 50


@documented(
    "monitoring-filter",
    "Filters compare metric.type, resource.type, metric.labels.X and resource.labels.X by =, !=, : (has), and "
    "=starts_with, ends_with, has_substring, one_of and monitoring.regex.full_match; AND may be left out.",
    source="cloud.google.com/monitoring/api/v3/filters",
)
@assumed("monitoring-filter-rest", "Selectors of groups and of metadata are refused.")
def parse_filter(text: str) -> Test:
    """Return the test that a filter expresses.

    Raises:
        Refusal: it is malformed or not supported.
    """
    if len(text) > _LONGEST:
        raise _broken("it is too long")
    parser = _Parser(list(_tokens(text)))
    test = parser.either()
    parser.end()
    return test


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each token; kinds are op, mark, text and word."""
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise _broken(f"it cannot be read from {text[place : place + 20]!r} on")
        # single and double quotes mean the same
        kind = "text" if match.lastgroup == "quoted" else match.lastgroup
        yield kind, re.sub(r"\\(.)", r"\1", match[match.lastgroup])
        place = match.end()


class _Parser:
    """A recursive descent: OR of ANDs of comparisons."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def end(self) -> None:
        """Raise if tokens are left."""
        if self._peek()[0]:
            raise _broken(f"{self._peek()[1][:40]!r} is left over")

    def either(self) -> Test:
        """Parse comparisons joined by OR."""
        tests = [self._all()]
        while self._accept_word("OR"):
            tests.append(self._all())
        return lambda series: any(test(series) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._accept_word("AND") or self._begins_another():
            tests.append(self._one())
        return lambda series: all(test(series) for test in tests)

    def _begins_another(self) -> bool:
        kind, text = self._peek()
        return (kind == "word" and text != "OR") or (kind == "mark" and text in "(-")

    def _one(self) -> Test:
        if self._accept_word("NOT") or self._accept("mark", "-"):
            test = self._below(self._one)
            return lambda series: not test(series)
        if self._accept("mark", "("):
            test = self._below(self.either)
            self._demand(")")
            return test
        return self._comparison()

    def _below(self, parse: Callable[[], Test]) -> Test:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _broken("it is nested too deep")
        test = parse()
        self._depth -= 1
        return test

    def _comparison(self) -> Test:
        read = _reader(self._pop("word"))
        operator = self._pop("op")
        kind, value = self._peek()
        self._next += 1
        if kind == "word" and self._accept("mark", "("):
            holds = _function(value, self._arguments())
        elif kind in ("word", "text"):
            holds = _equality(operator, value)
        else:
            raise _broken("a comparison lacks its value")
        # last, so that a malformed filter is refused as malformed
        if operator not in ("=", "!=", ":"):
            raise _broken(f"the operator {operator} is not supported")
        return (lambda series: not holds(read(series))) if operator == "!=" else (lambda series: holds(read(series)))

    def _arguments(self) -> list[str]:
        found = [self._pop("text")]
        while self._accept("mark", ","):
            found.append(self._pop("text"))
        self._demand(")")
        return found

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _accept(self, kind: str, text: str) -> bool:
        is_there = self._peek() == (kind, text)
        self._next += is_there
        return is_there

    def _accept_word(self, word: str) -> bool:
        return self._accept("word", word)

    def _demand(self, mark: str) -> None:
        if not self._accept("mark", mark):
            raise _broken(f"{mark!r} is missing")

    def _pop(self, kind: str) -> str:
        found, text = self._peek()
        if found != kind:
            raise _broken(f"{text[:40]!r} is not where a {kind} should be")
        self._next += 1
        return text


def _reader(selector: str) -> Callable[[Series], str]:
    match = _SELECTOR.fullmatch(selector)
    if match is None:
        raise _broken(f"the selector {selector[:60]!r} is not supported")
    # `project` is short for the label project_id of the resource
    part, label = match[1] or "resource", match[2]
    if selector == "project":
        label = "project_id"
    if label:
        return lambda series: str(series[part]["labels"].get(label, ""))
    return lambda series: str(series[part]["type"])


def _equality(operator: str, wanted: str) -> Callable[[str], bool]:
    if operator == ":":
        return lambda value: wanted in value
    return lambda value: value == wanted


def _function(name: str, arguments: list[str]) -> Callable[[str], bool]:
    first = arguments[0]
    functions: dict[str, Callable[[str], bool]] = {
        "starts_with": lambda value: value.startswith(first),
        "ends_with": lambda value: value.endswith(first),
        "has_substring": lambda value: first in value,
        "one_of": lambda value: value in arguments,
    }
    # compiled once, and refused here if it is not an expression
    if name == "monitoring.regex.full_match":
        pattern = _regex(first)
        return lambda value: pattern.fullmatch(value) is not None
    if name not in functions:
        raise _broken(f"the function {name[:40]!r} is not supported")
    return functions[name]


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise _broken(f"{text[:40]!r} is not a regular expression") from error


def _broken(why: str) -> Exception:
    return invalid_argument(f"Field filter had an invalid value: {why}.", "filter")
