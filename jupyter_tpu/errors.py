"""The exceptions of jupyter_tpu, one small tree.

    TpuError
    ├── BadInput             the caller asked for something that cannot be
    ├── IntentNotFound       no such intent in the journal
    ├── OutputsNotFound      no such kernel on a node, or no such request in its record
    ├── CredentialsMissing   nobody is signed in to Google Cloud
    ├── BudgetNotFound       there is no budget of that name
    ├── BudgetExceeded       a budget of the user's is used up
    ├── CloudRefused         the cloud answered "no"
    │   ├── PermissionDenied     IAM, location policy
    │   ├── ApiDisabled          the Cloud TPU API is off in the project
    │   ├── NotAllowlisted       the project may not use this accelerator type
    │   ├── QuotaExceeded        a limit of the project is used up
    │   │   ├── AddressQuotaExceeded     that of external IP addresses
    │   │   └── RateExceeded             that of requests per minute
    │   ├── OutOfCapacity        the zone has no free machines (stock-out)
    │   ├── NodeNotFound         no such node
    │   │   └── QueuedNotFound       no such queued resource
    │   ├── NodeExists           the name is taken
    │   └── WrongState           not possible in the node's present state
    ├── CloudUnavailable     the cloud did not answer, or answered nonsense
    ├── WorkerUnreachable    a worker does not answer over SSH
    │   ├── LinkDown             not now, though it did before
    │   ├── HostKeyChanged       it answered with another host key than the pinned one
    │   └── LoginRefused         it does not accept our key
    ├── AgentBroken          the agent on a worker does not start or speaks nonsense
    ├── EnvironmentFailed    the worker's Python environment could not be prepared
    ├── KernelFailed         a kernel did not start, or is gone
    ├── AcceleratorFailed    the kernel cannot use its accelerator
    │   └── AcceleratorBusy      another process holds it
    └── JournalUnwritable    intents cannot be recorded, so nothing may be asked for

Each says what failed (`message`), what exists now (`exists`), what to do (`hint`), carries a stable word (`code`) for
programs, an HTTP status for the REST API (`status`) and the foreign system's own words (`raw`).
Knows nothing of the systems that raise these: the doors translate.
"""

from __future__ import annotations

import unicodedata
from typing import Any, ClassVar

# Cc controls, Cf invisible and bidi formats, Cs surrogates, Zl/Zp line breaks that are not "\n"
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TO_SPACES = str.maketrans("\t\n\r", "   ")


LONGEST_WORDS = 20_000
"""Of what an error says in several lines, or the reason why a kernel has ended."""


def harmless(text: str, longest: int | None = None) -> str:
    """The text without what could steer a terminal, cut where it is longer; its lines and tabs stay."""
    return "".join(char for char in text[:longest] if char in "\n\t" or unicodedata.category(char) not in _UNSAFE)


def plain(text: object, longest: int = 2000) -> str:
    """One line of harmless text, cut where it is very long: for what a cloud, a worker or a process says of itself.

    Control, formatting and line-breaking characters become spaces or vanish.
    """
    return harmless(str(text)[:longest].translate(_TO_SPACES))


def plain_data(data: Any) -> Any:
    """The same of all texts in what an agent says, as JSON; not for what cells have put out."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, list):
        return [plain_data(each) for each in data]
    return {plain(name): plain_data(each) for name, each in data.items()} if isinstance(data, dict) else data


class TpuError(Exception):
    """Something failed that the user should read about."""

    code: ClassVar[str] = "tpu_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, exists: str = "", hint: str = "", raw: str = "") -> None:
        # any of them may quote a cloud, a worker or a file, and is shown in a terminal, a page and a log
        message, exists, hint = (harmless(text, LONGEST_WORDS) for text in (message, exists, hint))
        super().__init__(message)
        self.message = message
        self.exists = exists
        self.hint = hint
        self.raw = raw

    @property
    def raw(self) -> str:
        """The foreign system's own words; doors may learn them after the error was made."""
        return self._raw

    @raw.setter
    def raw(self, text: str) -> None:
        self._raw = harmless(text, LONGEST_WORDS)

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.exists, self.hint) if part)

    def _render_traceback_(self) -> list[str]:
        """IPython calls this in the place of a traceback: the words help the user, our frames would not.

        Any of them may quote a process, a file or another machine.
        """
        message, *rest = map(harmless, (self.message, self.exists, self.hint, self.raw))
        return [f"\x1b[31m{type(self).__name__}\x1b[39m: {message}", *filter(None, rest)]

    def __eq__(self, other: object) -> bool:
        """Whether both say the same: records hold errors, and are compared with what the journal gives back."""
        return isinstance(other, TpuError) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.code, self.message))

    def to_json(self) -> dict[str, Any]:
        """The error as the REST API, the CLI's ``--json`` and the journal show it."""
        return {
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "exists": self.exists,
            "hint": self.hint,
            "raw": self.raw,
        }


class BadInput(TpuError):
    """The caller asked for something that cannot be."""

    code = "bad_input"
    status = 400


class IntentNotFound(TpuError):
    """The journal has no such intent."""

    code = "intent_not_found"
    status = 404


class OutputsNotFound(TpuError):
    """No outputs are kept: there is no such kernel on a node, or no such request in its record."""

    code = "outputs_not_found"
    status = 404


class BudgetNotFound(TpuError):
    """There is no budget of that name."""

    code = "budget_not_found"
    status = 404


class BudgetExceeded(TpuError):
    """A budget of the user's is used up; nothing more may be asked for that costs money."""

    code = "budget_exceeded"
    status = 402


class CredentialsMissing(TpuError):
    """Nobody is signed in to Google Cloud."""

    code = "credentials_missing"
    status = 401


class CloudRefused(TpuError):
    """The cloud answered "no"."""

    code = "cloud_refused"
    status = 400


class PermissionDenied(CloudRefused):
    """IAM or the location policy forbids it."""

    code = "permission_denied"
    status = 403


class ApiDisabled(CloudRefused):
    """The Cloud TPU API is off in the project."""

    code = "api_disabled"
    status = 403


class NotAllowlisted(CloudRefused):
    """The project may not use this accelerator type; waiting does not help."""

    code = "not_allowlisted"
    status = 403


class QuotaExceeded(CloudRefused):
    """A limit of the project is used up; waiting does not help, freeing does."""

    code = "quota_exceeded"
    status = 429


class AddressQuotaExceeded(QuotaExceeded):
    """The region's limit of external IP addresses is used up; nodes with internal ones need none."""

    code = "address_quota_exceeded"


class RateExceeded(QuotaExceeded):
    """Too many requests in a short time; waiting a minute does help."""

    code = "rate_exceeded"


class OutOfCapacity(CloudRefused):
    """The zone has no free machines now (stock-out); trying again may help."""

    code = "out_of_capacity"
    status = 503


class NodeNotFound(CloudRefused):
    """There is no such node."""

    code = "node_not_found"
    status = 404


class QueuedNotFound(NodeNotFound):
    """There is no queued resource of that name."""

    code = "queued_resource_not_found"


class NodeExists(CloudRefused):
    """A node with this name exists already."""

    code = "node_exists"
    status = 409


class WrongState(CloudRefused):
    """The node's present state does not allow it."""

    code = "wrong_state"
    status = 409


class CloudUnavailable(TpuError):
    """The cloud did not answer, or what answered is not the cloud."""

    code = "cloud_unavailable"
    status = 503


class WorkerUnreachable(TpuError):
    """A worker does not answer over SSH."""

    code = "worker_unreachable"
    status = 502


class LinkDown(WorkerUnreachable):
    """The link to a worker is cut now; what runs there runs on."""

    code = "link_down"
    status = 503


class HostKeyChanged(WorkerUnreachable):
    """What answered showed another host key than the one that is pinned."""

    code = "host_key_changed"


class LoginRefused(WorkerUnreachable):
    """The worker does not accept our SSH key."""

    code = "login_refused"


class AgentBroken(TpuError):
    """The agent on a worker does not start, or speaks nonsense."""

    code = "agent_broken"
    status = 502


class EnvironmentFailed(TpuError):
    """The worker's Python environment could not be prepared."""

    code = "environment_failed"
    status = 502


class KernelFailed(TpuError):
    """A kernel did not start, or is gone."""

    code = "kernel_failed"
    status = 502


class AcceleratorFailed(TpuError):
    """The kernel cannot use its accelerator."""

    code = "accelerator_failed"
    status = 500


class AcceleratorBusy(AcceleratorFailed):
    """Another process holds the accelerator; only one can."""

    code = "accelerator_busy"
    status = 409


class JournalUnwritable(TpuError):
    """Intents cannot be recorded, so nothing that costs money may be asked for."""

    code = "journal_unwritable"
    status = 507


NEEDS_REPAIR = (EnvironmentFailed, LoginRefused, CredentialsMissing, PermissionDenied, ApiDisabled)
"""Why a worker cannot be reached that a person has to mend; trying again helps only then."""


def all_errors() -> dict[str, type[TpuError]]:
    """Every error class by its code."""
    found: dict[str, type[TpuError]] = {}
    waiting = [TpuError]
    while waiting:
        cls = waiting.pop()
        found[cls.code] = cls
        waiting.extend(cls.__subclasses__())
    return found


def error_from_json(data: dict[str, Any]) -> TpuError:
    """Rebuild an error from `TpuError.to_json`; an unknown code becomes a plain `TpuError`."""
    cls = all_errors().get(str(data.get("code")), TpuError)
    return cls(
        str(data.get("message", "")),
        exists=str(data.get("exists", "")),
        hint=str(data.get("hint", "")),
        raw=str(data.get("raw", "")),
    )
