"""The settings of the emulated project: permissions and limits set by its owner, its administrators and Google.

The control API sets them, a restart keeps them and a reset clears them. This module contains only values; `admission`
enforces the settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits.quota_profiles import PROFILES
from jupyter_tpu.emulator.resources import fields
from jupyter_tpu.emulator.resources.behaviours import recorded
from jupyter_tpu.emulator.store.settings import Facts, StoredSetting

CREATES_PER_MINUTE = 91  # behaviour `E11-create-rate-default`: the quota from a public report
STOP_RULES = ("multi_host", "spot")
_PERMISSION = re.compile(r"[a-z]+\.(?:\*|[A-Za-z]+\.(?:\*|[A-Za-z]+))")
FORMER = ("quota_requests",)
"""Settings of earlier versions that a state folder may still contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The settings of a project, one field each; the fields have the names that the control API uses.

    Attributes:
        api_enabled: whether the API is enabled; if not, every call is rejected.
        denied_permissions: IAM permissions such as ``tpu.nodes.list``, or ``tpu.nodes.*``.
        denied_locations: zones or regions that an organisation's policy forbids.
        allowlist: generations (``v5p``) or types (``v5p-8``) that the project may request; a suffix such as
            ``@us-east5-a`` limits an entry to a zone; None for all.
        addresses_per_region: maximum number of external IP addresses in a region; None for unlimited.
        creates_per_minute: maximum number of CreateNode calls in a virtual minute; None for unlimited.
        quota_profile: the default limits: one of `quota_profiles.PROFILES`.
        stop_refused_for: the kinds of nodes that can't be stopped: ``multi_host``, ``spot`` or both.
        numbers_in_names: whether names in queued resources contain the project's number instead of its id.
        undocumented_fields: whether queued resources show the undocumented fields bootDisk and useTpuVm.
        asks_for_token: whether a call without a bearer token is rejected with 401.
        promotional_credit_usd: credit that pays the first charges, as in the billing export.
    """

    api_enabled: bool = True
    denied_permissions: tuple[str, ...] = ()
    denied_locations: tuple[str, ...] = ()
    allowlist: tuple[str, ...] | None = None
    addresses_per_region: int | None = None
    creates_per_minute: int | None = CREATES_PER_MINUTE
    quota_profile: str = PROFILES[0]
    stop_refused_for: tuple[str, ...] = STOP_RULES[:1]
    numbers_in_names: bool = False
    undocumented_fields: bool = False
    asks_for_token: bool = False
    promotional_credit_usd: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


def flag(value: object) -> bool:
    """Parse a boolean."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def texts(value: object) -> tuple[str, ...]:
    """Parse a list of strings."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is not a list of strings")
    return tuple(fields.text(each) for each in value)


def whole_or_none(value: object) -> int | None:
    """Parse a whole number; None means unlimited."""
    return None if value is None else fields.whole(value)


def one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    """Return a function that accepts a value only if it is one of `words`."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"{value!r} is not one of {', '.join(words)}")
        return str(value)

    return check


def permissions(value: object) -> tuple[str, ...]:
    """Parse IAM permissions: ``tpu.nodes.list``, ``tpu.nodes.*``, ``tpu.*``, or permissions of other services."""
    names = texts(value)
    for name in names:
        if not _PERMISSION.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is not a permission such as tpu.nodes.list or tpu.nodes.*")
    return names


def locations(value: object) -> tuple[str, ...]:
    """Parse zones or regions that have TPUs."""
    places = texts(value)
    known = {*accelerators.zones(), *map(accelerators.region_of, accelerators.zones())}
    for place in places:
        if place not in known:
            raise ValueError(f"{place[:80]!r} is not a zone or region with TPUs")
    return places


def allowlist(value: object) -> tuple[str, ...] | None:
    """Parse generations or types, optionally with ``@`` and a zone; None means all."""
    entries = None if value is None else texts(value)
    for entry in entries or ():
        name, _, zone = entry.partition("@")
        is_known = name in accelerators.generations() or accelerators.find_accelerator(name) is not None
        if not is_known or ("@" in entry and zone not in accelerators.zones()):
            raise ValueError(f"{entry[:80]!r} is not a generation or accelerator type, alone or with @ and a zone")
    return entries


def _stop_rules(value: object) -> tuple[str, ...]:
    return tuple(one_of(STOP_RULES)(each) for each in texts(value))


_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "api_enabled": flag,
    "denied_permissions": permissions,
    "denied_locations": locations,
    "allowlist": allowlist,
    "addresses_per_region": whole_or_none,
    "creates_per_minute": whole_or_none,
    "quota_profile": one_of(PROFILES),
    "stop_refused_for": _stop_rules,
    "numbers_in_names": flag,
    "undocumented_fields": flag,
    "asks_for_token": flag,
    "promotional_credit_usd": fields.whole,
}


def changed(switches: Switches, settings: Mapping[str, Any]) -> Switches:
    """Return a copy of the settings with the changes in `settings`; raises ValueError if a value is invalid."""
    return replace(switches, **fields.checked(settings, _CHECKS))


class Project:
    """The emulated project with its current settings. Each change is stored."""

    @recorded(
        "E11-create-rate-default",
        "A project may create 91 nodes per minute.",
        source="marin-community/marin#6198 (tpu.googleapis.com/qps/create)",
    )
    def __init__(self, facts: Facts) -> None:
        self._setting = StoredSetting(facts, "project:switches")
        stored = {name: value for name, value in (self._setting.read() or {}).items() if name not in FORMER}
        # validate the stored settings, so that a setting from a newer emulator doesn't go unnoticed
        self._switches = changed(Switches(), stored)

    @property
    def switches(self) -> Switches:
        """The current settings of the project."""
        return self._switches

    def change(self, settings: Mapping[str, Any]) -> Switches:
        """Change the named settings. If a value is invalid, raise ValueError and change nothing."""
        self._switches = changed(self._switches, settings)
        self._setting.write(self._switches.to_json())
        return self._switches

    def clear(self) -> None:
        """Reset the settings to those of a new emulator."""
        self._switches = Switches()
        self._setting.delete()
