"""Calls to Google services other than Cloud TPU: find a method by verb and path, and name unsupported methods."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

from jupyter_tpu.emulator.core import PROJECT_NUMBER, Cloud
from jupyter_tpu.emulator.resources import paging
from jupyter_tpu.emulator.resources.errors import Refusal, unimplemented
from jupyter_tpu.emulator.services.requests.errors import denied_on_project, invalid_argument, invalid_value

GLOBAL = "locations/{location}"
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall:
    """A call of an API method.

    Attributes:
        parts: values of the path's variables, decoded.
        query: the query parameters; for a repeated parameter, the last value.
    """

    parts: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    def whole(self, name: str) -> int:
        """Return a parameter as a whole number; 0 if it is missing."""
        # an empty parameter counts as missing
        value = self.query.get(name, "") or "0"
        if not re.fullmatch(r"-?[0-9]{1,9}", value):
            raise invalid_argument(f"Invalid value at '{name}' (TYPE_INT32), {value[:40]!r}", name)
        return int(value)

    def word(self, name: str, *words: str) -> str:
        """Return the name of an enum parameter's value, by default the first of `words`.

        The request may contain the value's name or its number.
        """
        value = self.query.get(name, "") or words[0]
        by_number = {str(number): word for number, word in enumerate(words)}
        if value not in words and value not in by_number:
            raise invalid_value(name, "TYPE_ENUM", value)
        return by_number.get(value, value)


Answer = Callable[[ServiceCall], Mapping[str, Any]]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A supported method, such as ``GET v1/services/{service}/skus``, and the IAM permission that it requires.

    A variable matches one part of the path. The permission is empty if the method requires none.
    """

    verb: str
    path: str
    answer: Answer
    permission: str = ""

    def parts_of(self, verb: str, raw_path: str) -> Mapping[str, str] | None:
        """Return the path's variables, or None if the call does not match this method."""
        match = _pattern_of(self.path).fullmatch(raw_path) if verb == self.verb else None
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleService:
    """One of Google's other APIs: its paths, methods and errors.

    Attributes:
        name: the first part of the API's method ids, such as ``cloudbilling``.
        owns: regular expression for the API's paths, without the leading slash.
        methods: the supported methods.
        unnamed: leading parts of a path (without the version) that are omitted from the method ids.
        makes: the verb in the method id of a POST to a collection.
        has_actions: whether the last part of a path may be a verb, as in ``instances/{instance}/setMetadata``.
        denial: a function that returns the error for a missing permission (first argument) on a project (second
            argument).
    """

    name: str
    owns: str
    methods: tuple[Method, ...]
    unnamed: str = ""
    makes: str = "create"
    has_actions: bool = False
    denial: Callable[[str, str], Exception] = denied_on_project

    def find(self, verb: str, raw_path: str) -> tuple[Method, Mapping[str, str]]:
        """Return the method of a call and the variables in its path.

        Raises:
            Refusal: 501, with the method's name in the API's discovery document.
        """
        for method in self.methods:
            parts = method.parts_of(verb, raw_path)
            if parts is not None:
                return method, parts
        raise unimplemented(self.method_id(verb, raw_path))

    def method_id(self, verb: str, raw_path: str) -> str:
        """Return the method id of a call: ``serviceusage.services.get`` for ``GET v1/projects/p/services/s``."""
        above, slash, last = raw_path.rpartition("/")
        last, _, action = last.partition(":")
        _, _, path = f"{above}{slash}{last}".partition("/")
        path = re.sub(f"^(?:{self.unnamed})", "", path) if self.unnamed else path
        # shorten the segments, because the error message repeats them
        segments = [unquote(segment)[:60] for segment in path.split("/")]
        if self.has_actions and _ends_with_action(verb, segments):
            action = segments.pop()
        return ".".join([self.name, *segments[::2], action or self._word_of(verb, len(segments) % 2 == 1)])

    def _word_of(self, verb: str, is_collection: bool) -> str:
        words = {"GET": "list" if is_collection else "get", "POST": self.makes, "PUT": "update"}
        return words.get(verb, verb.lower())


def _ends_with_action(verb: str, segments: Sequence[str]) -> bool:
    """Return whether a path ends with an action, as in ``instances/{instance}/start`` or ``disks/bulkInsert``."""
    is_read = segments[-1].startswith(("get", "list"))
    return len(segments) == 3 or (len(segments) == 2 and (verb == "POST" or is_read))


@functools.cache
def _pattern_of(path: str) -> re.Pattern[str]:
    """Return the regular expression of a path.

    Only the last part of a path may end with a ``:verb``. A variable in this part therefore can't contain a colon; a
    variable in an earlier part can.
    """
    *above, last = path.split("/")
    head = "".join(_as_regex(part, "[^/]+") + "/" for part in above)
    return re.compile(head + _as_regex(last, "[^/:]+"))


def _as_regex(part: str, inner: str) -> str:
    texts, names = (_VARIABLE.split(part)[start::2] for start in range(2))
    variables = [f"(?P<{name}>{inner})" for name in names]
    return "".join(re.escape(text) + variable for text, variable in zip(texts, [*variables, ""], strict=True))


def _name(item: Any) -> str:
    return str(item["name"])


def _same(item: Any) -> Mapping[str, Any]:
    return dict(item)


def page(
    call: ServiceCall,
    field_name: str,
    items: Sequence[Item],
    *,
    key: Callable[[Item], str] = _name,
    show: Callable[[Item], Mapping[str, Any]] = _same,
) -> dict[str, Any]:
    """Return one page of `items`, in the same order, in the field `field_name`; return ``{}`` if it is empty."""
    size, after = _page_size(call), _name_before(call)
    keys = [key(item) for item in items]
    # a list can't continue after a deleted item
    if after and after not in keys:
        raise invalid_argument("The page token is not valid.", "pageToken")
    start = keys.index(after) + 1 if after else 0
    head, token = paging.cut(items[start:], key, size)
    shown = [show(item) for item in head]
    return {**({field_name: shown} if shown else {}), **({"nextPageToken": token} if token else {})}


def _page_size(call: ServiceCall) -> int:
    size = call.whole("pageSize")
    if size < 0:
        raise invalid_argument("The page size must not be negative.", "pageSize")
    return paging.page_size_of(size)


def _name_before(call: ServiceCall) -> str:
    try:
        return paging.name_before(call.query.get("pageToken", ""))
    except Refusal as refusal:
        raise invalid_argument("The page token is not valid.", "pageToken") from refusal


def check_project(cloud: Cloud, call: ServiceCall, permission: str) -> str:
    """Return the project as given in the call (id or number).

    Raises:
        Refusal: 403, for any project other than the emulator's own.
    """
    project = call.parts["project"]
    if project not in (cloud.project, PROJECT_NUMBER):
        raise denied_on_project(permission, project)
    return project


def check_global(call: ServiceCall) -> None:
    """Raise an error if the location is not ``global``."""
    if call.parts["location"] != "global":
        raise invalid_argument(f"Location {call.parts['location'][:40]!r} must be global.", "parent")
