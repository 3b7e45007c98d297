"""The data of a search for capacity: its candidates, tries and state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from jupyter_tpu.models import NODE_OPTIONS, NodeName, NodeOptions, NodeSpec
from jupyter_tpu.provisioning import Provisioning, check_flags, flags_of, provisioning_of

SEARCH_LABEL = "jupyter-tpu-search"
"""Label of a node that a search created; its value is the search's id."""

Phase = Literal["trying", "found", "failed", "cancelled"]
Outcome = Literal["trying", "quota", "stockout", "not_allowed", "address", "other", "won"]

MOST_TRIES = 200
"""Maximum number of tries in the journal's document; a search of a week makes thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that the user would accept, with its provisioning model; see `jupyter_tpu.provisioning`."""

    zone: str
    accelerator_type: str
    runtime_version: str
    spot: bool = False
    preemptible: bool = False
    reserved: bool = False
    options: NodeOptions = field(default_factory=NodeOptions)

    def __post_init__(self) -> None:
        check_flags(spot=self.spot, preemptible=self.preemptible, reserved=self.reserved)

    @property
    def labels(self) -> Mapping[str, str]:
        """Return an empty mapping, because a candidate has no labels. `provisioning_of` reads this property."""
        return {}

    @property
    def provisioning(self) -> Provisioning:
        """Return the provisioning model selected by the flags."""
        return provisioning_of(self)

    def spec(self, project: str, node_id: str) -> NodeSpec:
        """Return the spec for creating this candidate as node `node_id`; raises `BadInput` if it is invalid."""
        return NodeSpec(
            name=NodeName(project=project, zone=self.zone, node_id=node_id),
            accelerator_type=self.accelerator_type,
            runtime_version=self.runtime_version,
            **flags_of(self.provisioning),
            options=self.options,
        )

    def to_json(self) -> dict[str, Any]:
        """Return all fields, including the options; `from_json` is the inverse."""
        data = asdict(self)
        return {**data.pop("options"), **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """Parse the output of `to_json`; raises TypeError or ValueError if it is invalid."""
        data = dict(data)
        others = {name: value for name, value in data.items() if name not in NODE_OPTIONS}
        return cls(**others, options=NodeOptions.pick(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt to create one candidate.

    Attributes:
        index: the candidate's index.
        at: when the try began (Unix seconds).
        intent_id: the intent that creates the node; empty until it is known.
        message: the result in one sentence; empty while the try is open.
        raw: the cloud's error message.
        is_clean: whether the try was successful or left nothing in the cloud.
        was_interrupted: whether the process died while the try was open, possibly before it sent the request.
        deleted_at: when deletion of the leftovers was last requested (Unix seconds); 0 for never.
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
        candidates: the candidates, in the order of the tries.
        until: the time after which no try begins (Unix seconds); None to try each candidate once.
        tries: the newest `MOST_TRIES` tries, oldest first.
        tried: the total number of tries.
        round: the number of completed rounds over all candidates.
        position: index of the next candidate in this round.
        next_at: the earliest start of the next try (Unix seconds).
        hopeless: indexes of candidates that are not tried again, because waiting does not help.
        stop: why no further tries start although there is time left; empty while tries continue.
        accept_unknown_price: whether the user accepts candidates without a list price.
        is_cancelled: whether the user cancelled the search. The phase changes after all leftovers are gone from the
            cloud.
        node_name: full name of the node that was found; empty if no node was found.
        updated_at: when the owner last worked on the search (Unix seconds, accurate to about a minute).
        owner: the process that runs the search, see `jupyter_tpu.journal.owner`; empty if no process runs it.
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
        """Whether the phase is final."""
        return self.phase != "trying"

    @property
    def last(self) -> Try | None:
        """Return the latest try, or None if there are no tries yet."""
        return self.tries[-1] if self.tries else None

    def name(self, index: int) -> NodeName:
        """Return the node's name for the candidate with this index; raises `BadInput` if it is invalid."""
        return NodeName(project=self.project, zone=self.candidates[index].zone, node_id=self.node_id)

    def spec(self, index: int) -> NodeSpec:
        """Return the spec of the candidate with this index, labelled with this search."""
        spec = self.candidates[index].spec(self.project, self.node_id)
        return replace(spec, labels={SEARCH_LABEL: self.search_id})

    def to_json(self) -> dict[str, Any]:
        """Return all fields in the journal's format; `from_json` is the inverse."""
        # this uses the names of the fields, so renaming a field would change the journal's format
        return {**asdict(self), "candidates": [each.to_json() for each in self.candidates]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Search:
        """Parse the output of `to_json`; raises KeyError, TypeError or ValueError if it is invalid."""
        return cls(
            **{
                **data,
                "candidates": tuple(Candidate.from_json(each) for each in data["candidates"]),
                "tries": tuple(Try(**each) for each in data["tries"]),
                "hopeless": tuple(data["hopeless"]),
            }
        )
