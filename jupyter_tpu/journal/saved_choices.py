"""The user's choices from the setup, stored as environment variables in a file that all of the user's processes read.

A variable that is set in the environment takes precedence over the saved value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping

from jupyter_tpu.errors import JournalUnwritable, Text
from jupyter_tpu.files import write_whole
from jupyter_tpu.journal.paths import data_dir, data_path

_FILE = "setup.json"
# The only variables that are saved. Other variables express consent, such as trust in an endpoint, which is valid only
# in processes that the user starts.
_NAMES = frozenset({"JUPYTER_TPU_CREDENTIALS", "JUPYTER_TPU_PROJECT"})
_LONGEST = 4096  # in characters, enough for a path


def saved_choices() -> Mapping[str, str]:
    """Return the saved variables. A missing or damaged file counts as empty, because the user can choose again."""
    try:
        found = json.loads((data_path() / _FILE).read_bytes())
        return {name: value for name, value in found.items() if _is_variable(name, value)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def apply_saved_choices(environment: MutableMapping[str, str]) -> None:
    """Set each saved environment variable that has no value yet."""
    for name, value in saved_choices().items():
        if not environment.get(name):
            environment[name] = value


def save_choice(name: str, value: str, environment: MutableMapping[str, str]) -> None:
    """Save a variable for later processes, and set it in this process.

    Raises:
        JournalUnwritable: the variable cannot be saved; nothing has changed.
    """
    path = data_dir() / _FILE
    try:
        write_whole(path, json.dumps({**saved_choices(), name: value}, indent=2).encode())
    except OSError as error:
        raise JournalUnwritable(
            Text("{path} cannot be written ({error}).", path=path, error=error.strerror),
            hint="Free disk space or fix the permissions of this path, then try again.",
            raw=str(error),
        ) from error
    environment[name] = value


def _is_variable(name: object, value: object) -> bool:
    return name in _NAMES and isinstance(value, str) and 0 < len(value) <= _LONGEST
