"""Metadata of the emulated project, with the SSH keys that all its workers accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_tpu.emulator.resources.behaviours import documented
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.documents import fingerprint_of
from jupyter_tpu.emulator.store.settings import StoredSetting


class ProjectMetadata:
    """``commonInstanceMetadata``: items by key, and their fingerprint."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._setting = StoredSetting(store, "project:metadata")

    @property
    def items(self) -> dict[str, str]:
        """The items by key."""
        return dict(self._setting.read() or {})

    @property
    def fingerprint(self) -> str:
        """A hash of the items, by which a client shows that it changes the latest ones."""
        return fingerprint_of(self.items)

    def replace(self, items: Mapping[str, str]) -> None:
        """Replace all items."""
        with self._store.transaction():
            self._setting.write(dict(items))

    def to_json(self) -> dict[str, Any]:
        """Return it as Compute Engine's API shows it."""
        items = [{"key": key, "value": value} for key, value in self.items.items()]
        return {
            "kind": "compute#metadata",
            "fingerprint": self.fingerprint,
            **({"items": items} if items else {}),
        }


@documented(
    "project-ssh-keys",
    "SSH keys in the project's metadata are accepted by every worker, unless the node's metadata has "
    "block-project-ssh-keys=TRUE.",
    source="gcloud tpu_vm/ssh.py leaves the node as it is when the project has the key; "
    "cloud.google.com/compute/docs/connect/restrict-ssh-keys",
)
def ssh_keys(node_metadata: Mapping[str, str], project_metadata: Mapping[str, str]) -> str:
    """Return the lines ``user:key`` that a worker accepts: those of its node and, if not blocked, of the project."""
    # upper or lower case, as Compute Engine reads it
    is_blocked = node_metadata.get("block-project-ssh-keys", "").upper() == "TRUE"
    shared = "" if is_blocked else project_metadata.get("ssh-keys", "")
    return "\n".join(lines for lines in (node_metadata.get("ssh-keys", ""), shared) if lines)
