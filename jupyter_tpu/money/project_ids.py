"""Whether something can be the id of a project, for what is written down for it. Pure."""

from __future__ import annotations

import re

from jupyter_tpu.errors import BadInput

_PROJECT = re.compile(r"[a-z0-9][-a-z0-9.:]{2,62}")


def check_project(project: str) -> None:
    """Whether a project can have this id.

    Raises:
        BadInput: it cannot. A number is none: budgets of the one would not hold for the other.
    """
    if not _PROJECT.fullmatch(project) or project.isdecimal():
        raise BadInput(
            f"{project[:70]!r} is not the id of a project.",
            exists="Nothing was saved, and the cloud was not asked.",
            hint="Use its id, not its number: small letters, digits and hyphens. `gcloud projects list` shows yours.",
        )
