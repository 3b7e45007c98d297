"""Whatever happens to the link, the page, the agent and the server, the notebook ends as if nothing had happened.

These are the first seeds of `make soak`, which plays a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from journey_place import Place, a_place
from journey_schedules import LINK_ACTS, SERVER_ACTS, Notebook, play_on_link, play_on_server, schedule
from run_all_schedules import play_run_all
from run_all_schedules import schedule as run_all_schedule
from tiers import SSHD_KINDS, mostly_nightly

pytestmark = [pytest.mark.timeout(600)]

RUN_ALL_SEEDS = {
    27: "server killed, agent killed twice, connection lost, a cell fails",
    41: "server killed",
    48: "agent killed twice, a cell fails",
    28: "dropped before the first pong, second page, home removed, agent stands still",
}


@pytest.fixture(scope="module", params=SSHD_KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A READY node; this process has the folders of its user."""
    with a_place("--sshd", request.param) as place, pytest.MonkeyPatch.context() as patch:
        for name, value in place.environment.items():
            patch.setenv(name, value)
        yield place


@pytest.fixture(scope="module")
def place_with_server(place: Place) -> Place:
    place.start_server()
    return place


@pytest.fixture
async def uncut_on_link(place: Place, uncut: dict[str, Notebook]) -> Notebook:
    if "link" not in uncut:
        uncut["link"], wrong = await play_on_link(place, [])
        assert wrong == []
    return uncut["link"]


@pytest.fixture
async def uncut_on_server(place_with_server: Place, uncut: dict[str, Notebook]) -> Notebook:
    if "server" not in uncut:
        uncut["server"], wrong = await play_on_server(place_with_server, [])
        assert wrong == []
    return uncut["server"]


@pytest.fixture(scope="module")
def uncut(place: Place) -> dict[str, Notebook]:
    """What the notebook becomes when nothing happens, by the kind of client; played once, by the first who asks."""
    return {}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
async def test_a_notebook_over_a_link_ends_as_if_nothing_had_happened(
    place: Place, uncut_on_link: Notebook, seed: int
) -> None:
    acts = schedule(seed, LINK_ACTS)
    _, wrong = await play_on_link(place, acts, uncut_on_link)

    assert wrong == [], f"seed {seed}: {' '.join(map(str, acts))}"


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
@pytest.mark.parametrize("seed", mostly_nightly(range(10), count=1))
async def test_a_notebook_in_a_page_ends_as_if_nothing_had_happened(
    place_with_server: Place, uncut_on_server: Notebook, seed: int
) -> None:
    acts = schedule(seed, SERVER_ACTS)
    _, wrong = await play_on_server(place_with_server, acts, uncut_on_server)

    assert wrong == [], f"seed {seed}: {' '.join(map(str, acts))}"


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
@pytest.mark.parametrize("seed", mostly_nightly(RUN_ALL_SEEDS, count=1))
async def test_a_plain_client_that_runs_all_cells_shows_what_it_would_uncut(
    place_with_server: Place, seed: int
) -> None:
    chosen = run_all_schedule(seed)
    wrong = await play_run_all(place_with_server, chosen)

    assert wrong == [], f"seed {seed}: {chosen}"
