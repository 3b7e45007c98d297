"""The exceptions of jupyter_tpu, in one small class hierarchy.

    TpuError
    ├── BadInput             the request is not valid
    ├── IntentNotFound       no such intent in the journal
    ├── OutputsNotFound      no such kernel on a node, or no such request in its record
    ├── TerminalNotFound     no such terminal on the node
    ├── CredentialsMissing   no Google Cloud credentials were found
    ├── BudgetNotFound       no budget with that name
    ├── BudgetExceeded       one of the user's budgets is used up
    ├── CloudRefused         the cloud rejected the request
    │   ├── PermissionDenied     IAM, location policy
    │   ├── ApiDisabled          the Cloud TPU API is off in the project
    │   ├── NotAllowlisted       the project may not use this accelerator type
    │   ├── QuotaExceeded        a limit of the project is used up
    │   │   ├── AddressQuotaExceeded     limit of external IP addresses
    │   │   └── RateExceeded             limit of requests per minute
    │   ├── OutOfCapacity        the zone currently has no capacity (stock-out)
    │   ├── NodeNotFound         no such node
    │   │   └── QueuedNotFound       no such queued resource
    │   ├── NodeExists           the name is taken
    │   └── WrongState           not possible in the node's current state
    ├── CloudUnavailable     the cloud did not respond, or its response is not readable
    ├── WorkerUnreachable    a worker does not respond over SSH
    │   ├── LinkDown             the connection was lost
    │   ├── HostKeyChanged       its host key is not the pinned one
    │   └── LoginRefused         it does not accept the user's key
    ├── AgentBroken          the agent on a worker does not start or breaks the protocol
    ├── EnvironmentFailed    the worker's Python environment could not be prepared
    ├── KernelFailed         a kernel did not start, or it has died
    │   └── NodeEnded            its node was stopped or deleted
    ├── AcceleratorFailed    the kernel can't use its accelerator
    │   └── AcceleratorBusy      another process uses it
    ├── FileFailed           a file on a node or on this machine can't be read or written
    └── JournalUnwritable    intents can't be recorded, so nothing may be requested

Each error describes what failed (`message`), what exists as a result (`exists`) and what to do (`hint`). It has a
stable code for programs (`code`), an HTTP status for the REST API (`status`) and the external system's own text
(`raw`). A sentence with values is a `Text`, which keeps its template and arguments for translation. `actions` lists
what a front end can offer.

This module must not depend on the systems behind these errors: each system's adapter translates its exceptions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

# Unicode categories of unsafe characters: Cc controls, Cf invisible and bidi formats, Cs surrogates, Zl and Zp line
# breaks other than "\n".
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TO_SPACES = str.maketrans("\t\n\r", "   ")
_FIELD = re.compile(r"\{(\w+)\}")
# maximum depth of nested texts: our own texts have at most two levels, but a worker may send any number
_DEEPEST_TEXT = 10


LONGEST_TEXT = 20_000
"""Maximum length of a text with several lines, such as an error's text, in characters.

It is enough for a traceback, and limits what an external system can add to a log or a page.
"""


def harmless(text: str, longest: int | None = None) -> str:
    """Return the text without characters that could control a terminal; keep newlines and tabs.

    Only the first `longest` characters are used; if `longest` is None, all characters are used.
    """
    return "".join(char for char in text[:longest] if char in "\n\t" or unicodedata.category(char) not in _UNSAFE)


def plain(text: object, longest: int = 2000) -> str:
    """Sanitize text from a cloud, a worker or a process: return it as one line, shortened.

    Tabs and line breaks become spaces; other control and formatting characters are removed.
    """
    # Truncate first: processing every character of a megabyte of text would be slow.
    return harmless(str(text)[:longest].translate(_TO_SPACES))


def plain_data(data: Any) -> Any:
    """Apply `plain` to every text in an agent's JSON response; don't use this for the output of cells."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, list):
        return [plain_data(each) for each in data]
    return {plain(name): plain_data(each) for name, each in data.items()} if isinstance(data, dict) else data


class ShownTime(str):
    """A date and time as text, by this computer's clock; a front end can format the time itself.

    Attributes:
        at: the time in Unix seconds.
    """

    at: float

    def __new__(cls, text: str, at: float) -> ShownTime:
        shown = super().__new__(cls, text)
        shown.at = at
        return shown


class Text(str):
    """English text that keeps its template and arguments, so that a front end can translate it.

    Text("There is no node {node} in {zone}.", node=name.node_id, zone=name.zone)

    Each ``{name}`` is replaced with its argument, which is the same in any language. An argument that is not an integer
    is converted with `str`, so round numbers and quote words first. An argument that is a `Text` or a `ShownTime` is
    kept and translated too. A text without values needs no `Text`: a string is its own template.

    Attributes:
        template: the msgid for gettext.
        arguments: the values by name.
    """

    template: str
    arguments: dict[str, str | int]

    def __new__(cls, template: str, /, **arguments: object) -> Text:
        shown: dict[str, str | int] = {
            name: value if type(value) is int or isinstance(value, Text | ShownTime) else str(value)
            for name, value in arguments.items()
        }
        text = super().__new__(cls, _FIELD.sub(lambda field: str(shown.get(field[1], field[0])), template))
        text.template, text.arguments = template, shown
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the data with which a front end translates the text.

        `arguments` contains the arguments in English, for readers that ignore the other fields; `texts` contains the
        arguments that are a `Text`, and `times` the Unix seconds of the arguments that are a `ShownTime`.
        """
        return {
            "template": self.template,
            "arguments": {name: it if isinstance(it, int) else str(it) for name, it in self.arguments.items()},
            "texts": {name: it.to_json() for name, it in self.arguments.items() if isinstance(it, Text)},
            "times": {name: it.at for name, it in self.arguments.items() if isinstance(it, ShownTime)},
        }

    def with_arguments(self, **arguments: object) -> Text:
        """Return the text with these arguments added; they replace arguments with the same name."""
        return Text(self.template, **{**self.arguments, **arguments})


def joined(texts: Iterable[str], separator: str) -> Text:
    """Join texts so that each can still be translated."""
    parts = {f"part{number}": text for number, text in enumerate(texts)}
    return Text(separator.join(f"{{{name}}}" for name in parts), **parts)


def templates_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that a REST API record needs so that a front end can translate its `texts`.

    The field `templates` contains the template of each text that is a `Text`. The fields `arguments`, `texts` and
    `times` are those of `Text.to_json`, merged for all texts.
    """
    templates: dict[str, str] = {}
    arguments: dict[str, str | int] = {}
    nested: dict[str, Any] = {}
    times: dict[str, float] = {}
    for part, text in texts.items():
        # If two texts have different values for an argument of the same name, the text can't be translated and stays in
        # English.
        if isinstance(text, Text) and all(arguments.get(name, it) == it for name, it in text.arguments.items()):
            shown = text.to_json()
            templates[part] = text.template
            arguments.update(shown["arguments"])
            nested.update(shown["texts"])
            times.update(shown["times"])
    return {"templates": templates, "arguments": arguments, "texts": nested, "times": times}


def _harmless_text(text: str) -> str:
    """Apply `harmless` to a text, its template and arguments. If the text is too long, drop template and arguments."""
    if not isinstance(text, Text) or len(text) > LONGEST_TEXT:
        return harmless(text, LONGEST_TEXT)
    arguments = {
        name: it if isinstance(it, int | ShownTime) else _harmless_text(it) for name, it in text.arguments.items()
    }
    return Text(harmless(text.template), **arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action that a front end can offer for an error; `jupyter_tpu.error_actions` builds all of them.

    Attributes:
        command: the id of a command of the front end.
        args: the arguments of the command.
        label: the label of the action's button, in English.
    """

    command: str
    args: Mapping[str, str | bool]
    label: str

    def to_json(self) -> dict[str, Any]:
        """Return the action as the REST API shows it."""
        return {"command": self.command, "args": dict(self.args), "label": self.label}


class TpuError(Exception):
    """The base of all errors that are shown to the user.

    Args:
        message: what failed, in one sentence. If `message`, `exists` or `hint` contains values, it is a `Text`.
        exists: resources that exist and may cost money; empty if there are none.
        hint: what to do next.
        raw: the external system's own text.
        actions: what a front end can offer, most useful first; a terminal shows only the hint.
    """

    code: ClassVar[str] = "tpu_error"
    status: ClassVar[int] = 500

    def __init__(
        self, message: str, *, exists: str = "", hint: str = "", raw: str = "", actions: Sequence[Action] = ()
    ) -> None:
        # Each text may quote a cloud, a worker or a file, and is shown in terminals, pages and logs.
        message, exists, hint = map(_harmless_text, (message, exists, hint))
        super().__init__(message)
        self.message = message
        self.exists = exists
        self.hint = hint
        self.raw = raw
        self.actions = tuple(actions)

    @property
    def raw(self) -> str:
        """The external system's own text; an adapter may add it after the error was created."""
        return self._raw

    @raw.setter
    def raw(self, text: str) -> None:
        self._raw = harmless(text, LONGEST_TEXT)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.exists, self.hint) if part)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback, whose frames would not help the user."""
        # Import here, because i18n imports this module, and only notebooks need i18n.
        from jupyter_tpu.i18n import _

        # Sanitize again: attributes may have been set after the error was created.
        message, *rest = map(harmless, (*map(_, (self.message, self.exists, self.hint)), self.raw))
        return [f"\x1b[31m{type(self).__name__}\x1b[39m: {message}", *filter(None, rest)]

    def __eq__(self, other: object) -> bool:
        """Return whether the two errors have the same content; used to compare records from the journal."""
        return isinstance(other, TpuError) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.code, self.message))

    def to_json(self) -> dict[str, Any]:
        """Return the error as a JSON object, for the REST API, the CLI's ``--json`` and the journal."""
        texts = {"message": self.message, "exists": self.exists, "hint": self.hint}
        return {
            "code": self.code,
            "status": self.status,
            **{part: str(text) for part, text in texts.items()},
            "raw": self.raw,
            **templates_of(texts),
            "actions": [action.to_json() for action in self.actions],
        }


class BadInput(TpuError):
    """The request is not valid."""

    code = "bad_input"
    status = 400


class IntentNotFound(TpuError):
    """The journal has no such intent."""

    code = "intent_not_found"
    status = 404


class OutputsNotFound(TpuError):
    """No outputs are stored: no node has this kernel, or its record has no such request."""

    code = "outputs_not_found"
    status = 404


class TerminalNotFound(TpuError):
    """The node has no such terminal."""

    code = "terminal_not_found"
    status = 404


class BudgetNotFound(TpuError):
    """There is no budget with that name."""

    code = "budget_not_found"
    status = 404


class BudgetExceeded(TpuError):
    """One of the user's budgets is used up; nothing else that costs money may be requested."""

    code = "budget_exceeded"
    status = 402


class CredentialsMissing(TpuError):
    """No Google Cloud credentials were found."""

    code = "credentials_missing"
    status = 401


class CloudRefused(TpuError):
    """The cloud rejected the request."""

    code = "cloud_refused"
    status = 400


class PermissionDenied(CloudRefused):
    """IAM or the location policy forbids the request."""

    code = "permission_denied"
    status = 403


class ApiDisabled(CloudRefused):
    """The Cloud TPU API is off in the project."""

    code = "api_disabled"
    status = 403


class NotAllowlisted(CloudRefused):
    """The project may not use this accelerator type; waiting doesn't help."""

    code = "not_allowlisted"
    status = 403


class QuotaExceeded(CloudRefused):
    """A limit of the project is used up. Waiting doesn't help; the user must release resources."""

    code = "quota_exceeded"
    status = 429


class AddressQuotaExceeded(QuotaExceeded):
    """The region's limit of external IP addresses is used up; nodes with only internal addresses need none."""

    code = "address_quota_exceeded"


class RateExceeded(QuotaExceeded):
    """Too many requests in a short time; waiting a minute helps."""

    code = "rate_exceeded"


class OutOfCapacity(CloudRefused):
    """The zone currently has no capacity (stock-out); trying again may help."""

    code = "out_of_capacity"
    status = 503


class NodeNotFound(CloudRefused):
    """There is no such node."""

    code = "node_not_found"
    status = 404


class QueuedNotFound(NodeNotFound):
    """There is no queued resource with that name."""

    code = "queued_resource_not_found"


class NodeExists(CloudRefused):
    """A node with this name already exists."""

    code = "node_exists"
    status = 409


class WrongState(CloudRefused):
    """The node's current state does not allow the request."""

    code = "wrong_state"
    status = 409


class CloudUnavailable(TpuError):
    """The cloud did not respond, or the response came from another server."""

    code = "cloud_unavailable"
    status = 503


class WorkerUnreachable(TpuError):
    """A worker does not respond over SSH."""

    code = "worker_unreachable"
    status = 502


class LinkDown(WorkerUnreachable):
    """The connection to a worker was lost; its processes continue."""

    code = "link_down"
    status = 503


class HostKeyChanged(WorkerUnreachable):
    """The server at the worker's address has a host key other than the pinned one."""

    code = "host_key_changed"


class LoginRefused(WorkerUnreachable):
    """The worker does not accept the user's SSH key."""

    code = "login_refused"


class AgentBroken(TpuError):
    """The agent on a worker does not start or breaks the protocol."""

    code = "agent_broken"
    status = 502


class EnvironmentFailed(TpuError):
    """The worker's Python environment could not be prepared."""

    code = "environment_failed"
    status = 502


class WorkerDiskFull(EnvironmentFailed):
    """The worker's disk can't be written to: it is full or read-only."""

    code = "worker_disk_full"
    status = 507


class KernelFailed(TpuError):
    """A kernel did not start, or it has died."""

    code = "kernel_failed"
    status = 502


class NodeEnded(KernelFailed):
    """The kernel's node was stopped or deleted."""

    code = "node_ended"


class AcceleratorFailed(TpuError):
    """The kernel can't use its accelerator."""

    code = "accelerator_failed"
    status = 500


class AcceleratorBusy(AcceleratorFailed):
    """Another process uses the accelerator, which only one process can use at a time."""

    code = "accelerator_busy"
    status = 409


class FileFailed(TpuError):
    """A file on a node or on this machine can't be read or written."""

    code = "file_failed"
    status = 500


class JournalUnwritable(TpuError):
    """Intents can't be recorded, so nothing that costs money may be requested."""

    code = "journal_unwritable"
    status = 507


NEEDS_REPAIR = (EnvironmentFailed, LoginRefused, CredentialsMissing, PermissionDenied, ApiDisabled)
"""Errors that the user must fix before a worker can be reached again."""


def all_errors() -> dict[str, type[TpuError]]:
    """Return every error class by its code."""
    found: dict[str, type[TpuError]] = {}
    waiting = [TpuError]
    while waiting:
        cls = waiting.pop()
        found[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return found


def error_from_json(data: dict[str, Any]) -> TpuError:
    """Rebuild an error from `TpuError.to_json`, without its actions; for an unknown code, return a `TpuError`."""
    cls = all_errors().get(str(data.get("code")), TpuError)
    templates = _dict(data.get("templates"))
    message, exists, hint = (
        text_from_json({**data, "template": templates.get(part)}, str(data.get(part, "")))
        for part in ("message", "exists", "hint")
    )
    return cls(message, exists=exists, hint=hint, raw=str(data.get("raw", "")))


def _dict(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def text_from_json(data: Any, english: str, deepest: int = _DEEPEST_TEXT) -> str:
    """Rebuild a `Text` from `data`. If it doesn't match `english`, return `english`: a worker may send any data."""
    data = _dict(data)
    template, values = data.get("template"), data.get("arguments")
    texts, times = _dict(data.get("texts")), _dict(data.get("times"))
    if not isinstance(template, str) or not isinstance(values, dict) or not deepest:
        return english
    fields = _FIELD.findall(template)
    arguments = {name: values[name] for name in fields if isinstance(values.get(name), (str, int))}
    # Check the length before formatting: long values that are repeated often could fill the memory.
    if sum(len(str(arguments.get(name, ""))) for name in fields) > len(english):
        return english
    for name in arguments.keys() & texts.keys():
        arguments[name] = text_from_json(texts[name], str(arguments[name]), deepest - 1)
    for name in arguments.keys() & times.keys():
        if isinstance(times[name], int | float):
            arguments[name] = ShownTime(str(arguments[name]), times[name])
    text = Text(template, **arguments)
    return text if text == english else english
