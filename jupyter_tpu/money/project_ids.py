"""Validate project ids before anything is stored for a project.

This module is pure.
"""

from __future__ import annotations

import re

from jupyter_tpu.errors import BadInput, Text

# Less strict than Google's current rule of 6 to 30 characters: old projects have a domain prefix ("example.com:name").
_PROJECT = re.compile(r"[a-z0-9][-a-z0-9.:]{2,62}")


def check_project(project: str) -> None:
    """Check that a project id is valid.

    Raises:
        BadInput: the id is invalid, or it is a project number. A budget stored for the number would not apply to the
            id.
    """
    if not _PROJECT.fullmatch(project) or project.isdecimal():
        raise BadInput(
            Text("{project} is not a valid project ID.", project=repr(project[:70])),
            exists="Nothing was saved or sent to the cloud.",
            hint="Use the project ID, not the number: lower-case letters, digits and hyphens. `gcloud projects list` "
            "shows it.",
        )
