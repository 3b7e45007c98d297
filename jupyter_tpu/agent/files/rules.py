"""Which paths a replica ignores: rules that the client made of ``.gitignore`` and the like, as regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

from jupyter_tpu.wire.frames import ProtocolError

IsIgnored = Callable[[str], bool]
_MOST_RULES = 10_000
_GROUP_NAME = re.compile(r"\(\?P<\w+>")


def compile_rules(rules: object) -> IsIgnored:
    """Return a function that tells whether a path is ignored; a folder's path has to end with a slash.

    Args:
        rules: pairs of whether a match is ignored, and a regular expression. The last one that matches decides.

    Raises:
        ProtocolError: these are no rules.
    """
    if not isinstance(rules, Sequence) or len(rules) > _MOST_RULES or not all(map(_is_rule, rules)):
        raise ProtocolError("not a list of rules")
    matches = []
    # one expression for neighbours that decide alike: a path is matched with two or three instead of a hundred
    for is_ignored, group in groupby(rules, key=lambda rule: bool(rule[0])):
        expression = "|".join(_GROUP_NAME.sub("(?:", f"(?:{regex})") for _, regex in group)
        try:
            matches.append((is_ignored, re.compile(expression).match))
        except re.error as error:
            raise ProtocolError(f"not a regular expression: {error}") from error
    matches.reverse()

    def decide(path: str) -> bool:
        return next((is_ignored for is_ignored, match in matches if match(path)), False)

    return decide


def _is_rule(rule: object) -> bool:
    match rule:
        case [bool(), str()]:
            return True
    return False
