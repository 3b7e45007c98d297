"""How long each thing may take before it is given up, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Patience with the cloud.

    Attributes:
        unsure_s: how long a node that should exist may be missing, or one that should be gone may be listed (the
            cloud's lists lag behind its acts).
        vanished_s: the same for a node that was seen already.
        create_s: until a node is READY; gcloud gives up after as long.
        boot_s: from READY until the host keys are published.
        change_s: for a deletion or a stop.
        ask_again_s: between two requests for a deletion or a stop that got no answer.
    """

    unsure_s: float = 60.0
    vanished_s: float = 5.0
    create_s: float = 1800.0
    boot_s: float = 600.0
    change_s: float = 900.0
    ask_again_s: float = 10.0
