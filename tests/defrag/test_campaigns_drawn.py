"""Plans that are carried out while leaders die, nodes are shut and opened, and pods come and go: all run in the end."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from tests.defrag.moving import Moving, cordon, crowded, ends
from tests.defrag.planned import makes

HAPPENS = ("nothing", "kill", "shut the target", "shut the source", "open all", "another pod", "a pod ends")


@pytest.mark.slow
@settings(max_examples=40)
@given(
    happens=st.lists(st.sampled_from(HAPPENS), max_size=16),
    linger=st.integers(0, 3),
    dies_at=st.integers(-1, 8),
    dies_after=st.booleans(),
)
def test_whatever_happens_all_run_in_the_end_on_devices_of_their_own_and_nothing_stays_held(
    happens: list[str], linger: int, dies_at: int, *, dies_after: bool
) -> None:
    """Leaders die, nodes are shut and opened, pods come and go; each pod goes once at most, by a place that is held."""

    async def lead() -> None:
        settings_ = Configuration(host="http://127.0.0.1:1")  # reserved, nothing listens there
        async with Client(settings_, patience=1.0, manager="apportion-operator") as client:
            trial = crowded(client, linger=linger, dies_at=dies_at, dies_after=dies_after)
            await trial.start()
            if trial.campaign is None:
                await trial.start()
            for number, what in enumerate(happens):
                happen(trial, what, number)
                await trial.round()
            happen(trial, "open all", 0)
            await trial.rounds()
            for _ in range(6):
                await trial.round()
            check(trial)
            mine = asyncio.current_task()
            await asyncio.gather(
                *(each for each in asyncio.all_tasks() if each is not mine), return_exceptions=True
            )

    asyncio.run(lead())


def happen(trial: Moving, what: str, number: int) -> None:
    """Let something happen around the leader, or to it."""
    found = trial.campaign
    move = next((each for each in found.moves if each.phase != "Moved"), None) if found is not None else None
    match what:
        case "kill":
            trial.lead()
        case "shut the target" if move is not None:
            cordon(trial, move.target.node)
        case "shut the source" if move is not None:
            cordon(trial, move.source.node)
        case "open all":
            for node in ("n1", "n2", "n3"):
                raw = trial.cluster.objects["Node", "", node]
                raw["spec"] = {}
                trial.cluster.see(NODES, raw)
        case "another pod":
            makes(trial.cluster, f"other-{number}", "1g.10gb", owner="other")
        case "a pod ends":
            name = next((each for each in trial.running() if each.startswith("other")), None)
            if name is not None:
                ends(trial.cluster, name)


def check(trial: Moving) -> None:
    """Check that it has ended well for everybody."""
    found, cluster = trial.campaign, trial.cluster
    assert found is not None
    assert found.ended is not None
    assert trial.held == set()
    assert len(trial.evicted) == len({*trial.evicted})
    snapshot = cluster.snapshot
    names = {pod.name for pod in snapshot.pods.values()}
    assert trial.running().keys() == names
    assert len([name for name in names if not name.startswith("other")]) == 8
    for claim in snapshot.claims.values():
        assert claim.allocation is not None
        for result in claim.allocation.results:
            assert snapshot.state.holders(result.device) == (claim.uid,)
