"""How many chips a zone has at which moment, and whether nodes fit: tables over pure rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.emulator.limits import capacity as capacity_rules
from jupyter_tpu.emulator.limits.capacity import Capacity
from jupyter_tpu.emulator.limits.pools import RANDOM_PERIOD_S, Pool
from jupyter_tpu.emulator.limits.reservations import Reservations, reservation_from_json
from jupyter_tpu.emulator.resources.protos import NodePb, new
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.holdings import Held

ZONE, FAMILY = "us-central1-a", "v5e"


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def node(accelerator_type: str = "v5litepod-8", **scheduling: bool) -> NodePb:
    return new("Node", accelerator_type=accelerator_type, scheduling_config=new("SchedulingConfig", **scheduling))


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "cloud.db")
    yield store
    store.close()


@pytest.fixture
def capacity(store: Store, time: Time) -> Capacity:
    return Capacity(store, time)


def test_a_pool_is_unlimited_until_it_is_set(capacity: Capacity) -> None:
    crowd = [Held(node(), ZONE, 10_000)]
    assert capacity.has_room([node()], ZONE, crowd)
    assert capacity.next_change(0) is None

    capacity.set_chips(ZONE, FAMILY, 8)
    assert not capacity.has_room([node()], ZONE, crowd)

    capacity.set_chips(ZONE, FAMILY, None)
    assert capacity.has_room([node()], ZONE, crowd)


@pytest.mark.parametrize(
    ("held", "has_room"),
    [
        (Held(node("v5litepod-4"), ZONE, 1), False),
        (Held(node("v5litepod-4", spot=True), ZONE, 1), False),
        (Held(node("v5litepod-4", reserved=True), ZONE, 1), True),
        (Held(node("v5litepod-4"), "us-west4-a", 1), True),
        (Held(node("v5p-8"), ZONE, 1), True),
        (Held(node("v5litepod-4"), ZONE, 0), True),
    ],
)
def test_nodes_of_a_family_share_the_pool_of_their_zone(capacity: Capacity, held: Held, has_room: bool) -> None:
    capacity.set_chips(ZONE, FAMILY, 8)

    assert capacity.has_room([node()], ZONE, [held]) is has_room


def test_several_nodes_fit_all_together_or_not_at_all(capacity: Capacity) -> None:
    capacity.set_chips(ZONE, FAMILY, 12)

    assert capacity.has_room([node()], ZONE, [])
    assert not capacity.has_room([node(), node()], ZONE, [])


def test_a_script_changes_the_pool_at_its_moments(capacity: Capacity, time: Time) -> None:
    capacity.set_script(ZONE, FAMILY, [(60, 16), (0, 0), (30, 8)])

    seen = []
    for moment in (1_000.0, 1_030.0, 1_060.0):
        time.now = moment
        seen.append((capacity.chips(ZONE, FAMILY), capacity.next_change(time.now)))

    assert seen == [(0, 1_030.0), (8, 1_060.0), (16, None)]


def test_a_stock_out_ends_by_itself_and_leaves_the_pool_as_it_was(capacity: Capacity, time: Time) -> None:
    capacity.set_chips(ZONE, FAMILY, 8)
    capacity.stock_out(ZONE, FAMILY, 120)

    assert (capacity.chips(ZONE, FAMILY), capacity.next_change(time.now)) == (0, 1_120.0)
    time.now = 1_120.0
    assert (capacity.chips(ZONE, FAMILY), capacity.next_change(time.now)) == (8, None)


def test_a_stock_out_of_a_zone_is_one_of_all_its_families(capacity: Capacity) -> None:
    capacity.stock_out("us-east5-a")

    assert {row["family"] for row in capacity.uses([])} == {"v5p", "v6e"}
    assert not capacity.has_room([node("v5p-8")], "us-east5-a", [])
    assert capacity.has_room([node()], ZONE, [])


def test_a_seed_says_the_whole_future(capacity: Capacity, store: Store, time: Time) -> None:
    capacity.set_seed(ZONE, FAMILY, 64, 7)
    moments = [1_000.0 + RANDOM_PERIOD_S * step for step in range(50)]

    def walk(seeded: Capacity) -> list[int | None]:
        chips = []
        for time.now in moments:
            chips.append(seeded.chips(ZONE, FAMILY))
        return chips

    first = walk(capacity)
    assert first == walk(Capacity(store, time))
    assert len(set(first)) > 20
    assert all(chips is not None and 0 <= chips <= 64 for chips in first)
    assert Pool(seed=8, most=64).chips(moments[0]) != first[0]
    time.now = 1_000.0
    assert capacity.next_change(1_000.0) == 1_200.0


def test_what_is_set_outlives_the_process_and_a_reset_clears_it(store: Store, time: Time) -> None:
    Capacity(store, time).set_script(ZONE, FAMILY, [(0, 8), (60, None)])
    Capacity(store, time).stock_out("us-south1-a")

    again = Capacity(store, time)
    assert again.chips(ZONE, FAMILY) == 8
    assert again.chips("us-south1-a", FAMILY) == 0
    time.now += 60
    assert again.chips(ZONE, FAMILY) is None

    again.clear()
    assert Capacity(store, time).uses([]) == []


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"zone": ZONE, "family": FAMILY},
        {"zone": "mars-west1-a", "family": FAMILY, "chips": 1},
        {"zone": ZONE, "family": "v4", "chips": 1},
        {"zone": ZONE, "family": FAMILY, "chips": -1},
        {"zone": ZONE, "family": FAMILY, "chips": "many"},
        {"zone": ZONE, "family": FAMILY, "chips": None, "seed": 1},
        {"zone": ZONE, "family": FAMILY, "script": [[1]]},
        {"zone": ZONE, "family": FAMILY, "script": [[1, 2, 3]]},
        {"zone": ZONE, "family": FAMILY, "script": [5]},
        {"zone": ZONE, "family": FAMILY, "script": [[-1, 8]]},
        {"zone": ZONE, "family": FAMILY, "script": 5},
        {"zone": [], "family": FAMILY, "chips": 1},
    ],
    ids=repr,
)
def test_nonsense_changes_nothing(capacity: Capacity, asked: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        capacity_rules.change(capacity, asked)

    assert capacity.uses([]) == []


def reserve(store: Store, chips: int) -> Reservations:
    reservations = Reservations(store)
    data = {"reservation_id": "r1", "zone": ZONE, "family": FAMILY, "chips": chips}
    reservations.set(reservation_from_json(data))
    return reservations


def test_a_reservation_has_room_for_as_many_chips_as_it_has(store: Store) -> None:
    reserve(store, 16)
    reservations = Reservations(store)  # as after a restart
    one = [Held(node(reserved=True), ZONE, 1), Held(node(), ZONE, 50)]

    assert reservations.verdict([node(reserved=True)], ZONE, one) is None
    assert reservations.verdict([node(reserved=True)], ZONE, one, name="projects/p/locations/z/reservations/r1") is None


@pytest.mark.parametrize(
    ("accelerator_type", "zone", "name", "is_queued", "code", "words"),
    [
        (
            "v5litepod-16",
            ZONE,
            "",
            False,
            8,
            "Insufficient reserved capacity. Contact customer support to increase your",
        ),
        (
            "v5litepod-16",
            ZONE,
            "r1",
            True,
            9,
            "Insufficient reserved capacity. Contact customer support to increase your",
        ),
        ("v5litepod-8", ZONE, "r2", False, 5, "Reservation not found"),
        ("v5litepod-8", "us-west4-a", "", False, 5, "Reservation not found"),
        ("v5p-8", ZONE, "", True, 5, "Reservation not found"),
    ],
)
def test_what_a_reservation_cannot_give_fails_as_recorded(
    store: Store, accelerator_type: str, zone: str, name: str, is_queued: bool, code: int, words: str
) -> None:
    reservations = reserve(store, 8)

    verdict = reservations.verdict([node(accelerator_type, reserved=True)], zone, [], name=name, is_queued=is_queued)

    assert verdict is not None
    assert verdict.code == code
    assert verdict.message.startswith(words)
