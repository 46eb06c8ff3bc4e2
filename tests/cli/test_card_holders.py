"""Cards with many holders, and with some that only look, as `apportion status` and the page show them."""

import copy

import pytest

from apportion.cli.answers.cards import cards
from apportion.cli.world.world import World
from apportion.cluster.kinds import CLAIMS
from apportion.web.map import node_rows
from apportion.web.observed import Observed
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import request


def looks(cluster: Cluster, name: str, device: str) -> None:
    """Let a claim look at a device of the first node that another one may have."""
    cluster.allocate(cluster.claim(name, request("gpu", adminAccess=True)), "n1", device)
    raw = copy.deepcopy(cluster.objects["ResourceClaim", "team", name])
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    cluster.see(CLAIMS, raw)


@pytest.mark.parametrize("count", [53, 120, 500])
def test_each_of_many_holders_of_a_card_has_a_letter_of_its_own(count: int) -> None:
    """The alphabet has 52: some claims were missing, and the page of the node was an error."""
    cluster = two_cards()
    for number in range(count):
        looks(cluster, f"m{number:03}", "gpu-0-mig-3g40gb-9-4")
    world = World([*cluster.objects.values()], "1.37")
    card = next(each for each in cards(world.snapshot, world.holds) if each.node == "n1")
    claims = {"team/held", *(f"team/m{number:03}" for number in range(count))}
    assert {*card.holders.values()} == claims
    assert all(len(letter) == 1 and letter.isalpha() for letter in card.holders)
    [node] = node_rows(Observed(world), ("n1",))
    assert {part.holder.claim for part in node.cards[0].held} == claims
    assert len({part.letter for part in node.cards[0].held}) == count + 1


def test_who_only_looks_takes_no_slice() -> None:
    """A card with a monitor counted as full."""
    cluster = two_cards()
    looks(cluster, "monitor", "gpu-0")
    world = World([*cluster.objects.values()], "1.37")
    card = next(each for each in cards(world.snapshot, world.holds) if each.node == "n1")
    assert (card.slices, card.largest) == ("BBBB....", "3g.40gb")
    assert card.holders == {"A": "team/monitor", "B": "team/held"}
