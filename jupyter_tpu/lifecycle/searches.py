"""What a search for capacity is: the candidates, the tries so far, and how it stands. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.provisioning import Provisioning, check_flags, flags_of, provisioning_of

SEARCH_LABEL = "jupyter-tpu-search"
"""Label of a node that a search asked for; its value is the search's id."""

Phase = Literal["trying", "found", "failed", "cancelled"]
Outcome = Literal["trying", "quota", "stockout", "not_allowed", "address", "other", "won"]

MOST_TRIES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that the user would accept, on one of several terms, see `jupyter_tpu.provisioning`."""

    zone: str
    accelerator_type: str
    runtime_version: str
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    internal_ips: bool = False

    def __post_init__(self) -> None:
        check_flags(spot=self.spot, preemptible=self.preemptible, reserved=self.reserved)

    @property
    def labels(self) -> Mapping[str, str]:
        """None of its own."""
        return {}

    @property
    def provisioning(self) -> Provisioning:
        return provisioning_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One candidate tried once.

    Attributes:
        index: of the candidate.
        at: when it began (Unix seconds).
        intent_id: the wish that it made; empty until that is known.
        message: how it ended, in one sentence; empty while it is open.
        raw: the cloud's own words.
        is_clean: nothing of it is left in the cloud, or it was won.
        was_interrupted: its process died while it was open, perhaps before the cloud was asked.
        deleted_at: when the deletion of what it left was asked for last (Unix seconds); 0 = never.
    """

    index: int
    at: float
    outcome: Outcome = "trying"
    intent_id: str = ""
    message: str = ""
    raw: str = ""
    is_clean: bool = False
    was_interrupted: bool = False
    deleted_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search for one node.

    Attributes:
        candidates: in the order in which they are tried.
        until: no try begins after that (Unix seconds); None: each candidate is tried once.
        tries: the newest `MOST_TRIES`, oldest first.
        tried: how many there were.
        round: how often all candidates were tried.
        position: of the next candidate in this round.
        next_at: no try before that (Unix seconds).
        hopeless: candidates that waiting does not help, by index.
        stop: why no try begins any more, though there is time; empty where that is not so.
        accept_unknown_price: the user knows that a candidate may have no list price.
        is_cancelled: the user wants no more of it; once nothing is left, the phase says so.
        updated_at: when its owner last looked after it (Unix seconds, to about a minute).
        owner: the process that drives it, see `jupyter_tpu.journal.owner`.
    """

    search_id: str
    project: str
    node_id: str
    candidates: tuple[Candidate, ...]
    until: float | None = None
    phase: Phase = "trying"
    message: str = ""
    tries: tuple[Try, ...] = ()
    tried: int = 0
    round: int = 0
    position: int = 0
    next_at: float = 0.0
    hopeless: tuple[int, ...] = ()
    stop: str = ""
    accept_unknown_price: bool = False
    is_cancelled: bool = False
    node_name: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    owner: str = ""

    @property
    def has_ended(self) -> bool:
        return self.phase != "trying"

    @property
    def last(self) -> Try | None:
        """The try that was begun last."""
        return self.tries[-1] if self.tries else None

    def name(self, index: int) -> NodeName:
        """Of the node that a candidate would be."""
        return NodeName(project=self.project, zone=self.candidates[index].zone, node_id=self.node_id)

    def spec(self, index: int) -> NodeSpec:
        """What to ask for."""
        wanted = self.candidates[index]
        return NodeSpec(
            name=self.name(index),
            accelerator_type=wanted.accelerator_type,
            runtime_version=wanted.runtime_version,
            **flags_of(wanted.provisioning),
            internal_ips=wanted.internal_ips,
            labels={SEARCH_LABEL: self.search_id},
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, as the journal keeps it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Search:
        return cls(
            **{
                **data,
                "candidates": tuple(Candidate(**each) for each in data["candidates"]),
                "tries": tuple(Try(**each) for each in data["tries"]),
                "hopeless": tuple(data["hopeless"]),
            }
        )
