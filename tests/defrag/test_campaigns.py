"""Plans are carried out one move after the other: each place is held before a pod goes, and whatever happens everybody runs in the end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS, PODS
from tests.clients import silent
from tests.defrag.moving import Moving, cordon, crowded, ends, policy, scattered
from tests.defrag.planned import cards, makes, runs

__all__ = ["silent"]


async def test_a_move_frees_a_card_and_the_pod_that_comes_instead_has_the_place_that_was_held(
    silent: Client,
) -> None:
    """It runs on the other card; then nothing is held any more."""
    trial = scattered(silent)
    await trial.start()
    assert trial.campaign is not None
    [move] = trial.campaign.moves
    await trial.rounds()
    found = trial.campaign
    assert found is not None
    assert (found.reason, [each.phase for each in found.moves]) == ("Completed", ["Moved"])
    assert len(trial.evicted) == 1
    stays, node = ("a", "n1") if move.pod == "team/b" else ("b", "n2")
    assert trial.running().keys() == {stays, "anew-1"}
    assert {each.split("/")[0] for each in trial.running().values()} == {node}
    assert trial.held == set()


async def test_nobody_is_touched_before_it_is_written_down(silent: Client) -> None:
    """The server may take long to answer; until then the places are held, and nothing else is done."""
    trial = scattered(silent)
    done: list[tuple[int, bool]] = []
    await trial.start(meanwhile=lambda: done.append((trial.acts, bool(trial.held))))
    assert done == [(0, True)]
    assert (trial.acts, trial.evicted) == (1, [])


async def test_several_moves_are_made_one_after_the_other(silent: Client) -> None:
    """The second pod goes when the first one that came instead runs, and the first that went is gone."""
    trial = crowded(silent, linger=3)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    for _ in range(2):
        await trial.round()
    assert len(trial.evicted) == 1
    await trial.rounds()
    assert len(trial.evicted) == 2
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
    assert len(trial.running()) == 8
    assert not [place for place in trial.running().values() if place.startswith("n1/")]


async def test_a_pod_that_comes_in_between_does_not_get_what_is_held(silent: Client) -> None:
    """Neither the new place nor the old one, nor the rest of the card that is to be free; it gets what is left."""
    trial = scattered(silent, linger=2)
    await trial.start()
    held = {str(each) for each in trial.held}
    await trial.rounds(until=lambda: bool(trial.evicted))
    makes(trial.cluster, "half", "3g.40gb", owner="other")
    makes(trial.cluster, "small", "1g.10gb", owner="other")
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
    [move] = trial.campaign.moves
    places = trial.running()
    assert places["anew-1"] == "/".join(move.target.devices[0].split("/")[1:])
    freed = move.source.node
    assert not {f"gpu.apportion.dev/{places[name]}" for name in ("half", "small")} & held
    assert not [name for name, place in places.items() if place.startswith(f"{freed}/")]


async def test_who_is_made_by_the_same_controller_before_the_pod_goes_gets_nothing_that_is_held(
    silent: Client,
) -> None:
    """A pod that the controller adds is not the one that comes instead, as long as nobody has gone."""
    trial = scattered(silent, protected=("a", "b"))
    await trial.start()
    makes(trial.cluster, "added", "1g.10gb")
    await trial.round()
    held = {f"{each.pool}/{each.name}" for each in trial.held}
    assert trial.running().keys() == {"a", "b", "added"}
    assert trial.running()["added"] not in held


async def test_a_place_that_is_lost_before_the_pod_goes_costs_nobody_anything(silent: Client) -> None:
    """Its node is cordoned."""
    trial = scattered(silent)
    await trial.start()
    assert trial.campaign is not None
    [move] = trial.campaign.moves
    cordon(trial, move.target.node)
    await trial.rounds()
    assert trial.campaign.reason == "PlaceLost"
    assert (trial.evicted, trial.held) == ([], set())


async def test_nobody_goes_where_others_have_come_to_the_card_that_is_to_be_free(silent: Client) -> None:
    """A plan takes seconds, in which passes go on: who was put on that card meanwhile stays, so that a restart would free nothing."""
    trial = scattered(silent)
    planned, _ = trial.plan()
    assert planned.plan is not None
    [card] = planned.plan.cards
    await trial.start(while_planned=lambda: put(trial, "late", card.pool, 5))
    await trial.rounds()
    assert trial.campaign is not None
    assert (trial.campaign.reason, trial.evicted, trial.held) == ("PlaceLost", [], set())
    assert str(card) in trial.campaign.message


def put(trial: Moving, name: str, node: str, start: int) -> None:
    """Let a pod of another controller run in a place."""
    runs(trial.cluster, name, node, "1g.10gb", start, owner="other")


async def test_a_place_that_is_lost_after_the_pod_went_is_replaced_by_the_old_one(silent: Client) -> None:
    """The pod that comes instead runs where the other one ran, and the rest is given up."""
    trial = crowded(silent, successors=False)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    assert trial.campaign is not None
    move = next(each for each in trial.campaign.moves if each.phase == "Evicting")
    cordon(trial, move.target.node)
    makes(trial.cluster, "anew-1", "1g.10gb")
    await trial.rounds()
    assert trial.campaign.reason == "PlaceLost"
    assert len(trial.evicted) == 1
    assert trial.running()["anew-1"] == "/".join(move.source.devices[0].split("/")[1:])
    assert len(trial.running()) == 8
    assert trial.held == set()


async def test_nobody_comes_instead_and_it_is_given_up(silent: Client) -> None:
    """The controller was scaled down: after the time-out everybody else may have the places."""
    trial = crowded(silent, successors=False)
    await trial.start()
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "NoSuccessor"
    assert (len(trial.evicted), len(trial.running()), trial.held) == (1, 7, set())


async def test_a_window_that_closes_ends_it_between_two_moves(silent: Client) -> None:
    """The move that has begun is ended; the next one is not begun."""
    trial = crowded(silent)
    await trial.start(timedelta(minutes=1))
    await trial.rounds(until=lambda: bool(trial.evicted))
    trial.cluster.clock.now += 60
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "WindowClosed"
    assert [each.phase for each in trial.campaign.moves] == ["Moved", "Waiting"]
    assert (len(trial.evicted), len(trial.running()), trial.held) == (1, 8, set())


async def test_a_policy_that_is_deleted_midway_lets_the_move_end_and_makes_no_other(silent: Client) -> None:
    """Who went is followed by a pod in the place that was held; then nothing is held any more."""
    trial = crowded(silent)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    trial.cluster.gone(DEFRAGS, trial.cluster.objects.pop(("DefragPolicy", "", "tidy")))
    await trial.rounds(most=12, until=lambda: not trial.campaigns.busy)
    assert not trial.campaigns.busy
    assert (len(trial.evicted), len(trial.running()), trial.held) == (1, 8, set())
    assert trial.running()["anew-1"].split("/")[0] != "n1"


async def test_what_cannot_be_carried_out_as_it_is_written_ends_it_and_not_the_operator(
    silent: Client,
) -> None:
    """The API server takes times without a zone, which nobody can compare; each leader would end with what a person wrote."""
    trial = scattered(silent)
    await trial.start()
    raw = trial.cluster.objects["DefragPolicy", "", "tidy"]
    raw["status"]["campaign"]["closes"] = "2126-01-01T00:00:00"
    trial.cluster.see(DEFRAGS, raw)
    trial.lead()
    await trial.rounds(most=4)
    assert trial.campaign is not None
    assert (trial.campaign.reason, trial.evicted, trial.held) == ("Defect", [], set())


def recommend(trial: Moving) -> None:
    """Change the policy's mode."""
    raw = trial.cluster.objects["DefragPolicy", "", "tidy"]
    raw["spec"] = raw["spec"] | {"mode": "Recommend"}
    trial.cluster.see(DEFRAGS, raw)


def victim_gone(trial: Moving) -> None:
    """Let the pods end by themselves."""
    for name in ("a", "b"):
        ends(trial.cluster, name)


def joins_a_group(trial: Moving) -> None:
    """Let the pods ask something of their neighbours."""
    for name in ("a", "b"):
        pod = trial.cluster.objects["Pod", "team", name]
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        pod["spec"]["affinity"] = {"podAntiAffinity": {key: [term]}}
        trial.cluster.see(PODS, pod)


def movables_kind() -> Any:
    """Return the kind of pods."""
    from apportion.cluster.kinds import PODS

    return PODS


@pytest.mark.parametrize(
    ("change", "reason"),
    [(recommend, "PolicyChanged"), (victim_gone, "PodGone"), (joins_a_group, "MayNotMove")],
)
async def test_what_changes_before_the_pod_goes_ends_it(
    silent: Client, change: Callable[[Moving], None], reason: str
) -> None:
    """Nobody is evicted by what was true a moment ago."""
    trial = scattered(silent)
    await trial.start()
    change(trial)
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == reason
    assert (trial.evicted, trial.held) == ([], set())


@pytest.mark.slow
@pytest.mark.parametrize("linger", [0, 2])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("act", range(8))
async def test_a_leader_that_is_killed_at_any_act_is_followed_by_one_that_goes_on(
    silent: Client, act: int, *, after: bool, linger: int
) -> None:
    """Two moves; whether the act reached the server or not: each pod goes once, by a place that is held and written down, and all run in the end."""
    trial = crowded(silent, dies_at=act, dies_after=after, linger=linger)
    await trial.start()
    if trial.campaign is None:
        assert act == 0
        await trial.start()
    await trial.rounds()
    found = trial.campaign
    assert found is not None
    assert (found.reason, [each.phase for each in found.moves]) == ("Completed", ["Moved", "Moved"])
    assert len(trial.evicted) == len({*trial.evicted}) == 2
    assert len(trial.running()) == 8
    assert trial.held == set()
    await trial.round()
    assert not trial.campaigns.busy


async def test_a_stateful_pod_is_followed_by_the_one_of_its_name_only(silent: Client) -> None:
    """Another ordinal of the set that waits is not it."""
    cluster = cards()
    runs(cluster, "db-0", "n1", "1g.10gb", 3, kind="StatefulSet", owner="db")
    runs(cluster, "db-1", "n2", "1g.10gb", 0, kind="StatefulSet", owner="db")
    policy(cluster)
    trial = Moving(cluster, silent, successors=False)
    await trial.start()
    assert trial.campaign is not None
    [move] = trial.campaign.moves
    await trial.rounds(until=lambda: bool(trial.evicted))
    makes(trial.cluster, "db-2", "1g.10gb", kind="StatefulSet", owner="db")
    for _ in range(4):
        await trial.round()
    name = move.pod.partition("/")[2]
    assert name not in trial.running()
    makes(trial.cluster, name, "1g.10gb", kind="StatefulSet", owner="db")
    await trial.rounds()
    assert trial.campaign.reason == "Completed"
    assert trial.running()[name] == "/".join(move.target.devices[0].split("/")[1:])
