"""The pod that comes instead may name several claims, of which one write succeeds and another one does not."""

import copy
from datetime import timedelta

from apportion.api.defrag import Campaign, CampaignMove, DefragPlace, MovePhase
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.cli.worlds import profile_request
from tests.clients import silent
from tests.defrag.moving import Moving, policy
from tests.defrag.planned import cards, makes, part

__all__ = ["silent"]


def place(node: str, *starts: int) -> DefragPlace:
    """Return small partitions of a node."""
    return DefragPlace(
        node=node, devices=tuple(f"gpu.apportion.dev/{node}/{part('1g.10gb', start)}" for start in starts)
    )


async def test_the_claim_whose_write_failed_gets_what_is_left_of_the_place(silent: Client) -> None:
    """It waited for other devices, and where the node had none for `moveTimeout`, though its own were held for it."""
    cluster = cards()
    policy(cluster)
    makes(cluster, "anew", "1g.10gb")
    first = copy.deepcopy(cluster.objects["ResourceClaim", "team", "anew-claim"])
    cluster.allocate(first, "n1", part("1g.10gb", 0), timestamp=cluster.time())
    cluster.claim("second", profile_request("1g.10gb"))
    pod = copy.deepcopy(cluster.objects["Pod", "team", "anew"])
    pod["spec"]["resourceClaims"].append({"name": "other", "resourceClaimName": "second"})
    cluster.see(PODS, pod)
    trial = Moving(cluster, silent)
    move = CampaignMove(
        pod="team/old",
        source=place("n2", 0, 1),
        target=place("n1", 0, 1),
        uid="gone",
        controller="uid-web",
        phase=MovePhase.EVICTING,
        since=trial.now(),
    )
    trial.cycle.places.hold(
        Campaign(began=trial.now(), closes=trial.now() + timedelta(hours=1), moves=(move,))
    )
    trial.cycle.once()
    [claim] = [each for each in trial.cluster.snapshot.claims.values() if each.name == "second"]
    allocation = trial.cluster.snapshot.allocation(claim)
    assert allocation is not None
    assert [each.device.name for each in allocation.results] == [part("1g.10gb", 1)]
