"""A pod that names another one's claim and does not run with its devices keeps nobody from being evicted: each tenant could make such pods for its own."""

from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.scheduling.evicting import Trial, trial, waits


def holds_with(made: Trial, other: str, *, node: str | None, reserves: bool) -> None:
    """Let the pod `low` have the GPU of `n1`, and another one name its claim without a gate."""
    world, placed = made.world, {} if node is None else {"nodeName": node}
    claim = world.claim("low", request("gpu"), namespace="team")
    pods = [
        world.pod("low", "low", spec={"nodeName": "n1", "priority": 0}, namespace="team"),
        world.pod(other, "low", spec={"priority": 0, **placed}, namespace="team"),
    ]
    users = [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for pod in pods[: 1 + reserves]
    ]
    world.allocate(claim, "n1", "gpu-0", timestamp=world.time(-3600.0), reservedFor=users)
    waits(world, "high", 1, 5)


async def test_a_pod_that_nobody_binds_keeps_nobody_from_being_evicted(unanswered: Client) -> None:
    """It names a scheduler that is not there, or asks for more cpu than there is: nobody reserves the claim for it, and it may wait for ever."""
    made = trial(unanswered, 1)
    holds_with(made, "never-bound", node=None, reserves=False)
    await made.passes()
    assert made.evicted == ["low"]


async def test_a_pod_that_its_owner_has_put_on_another_node_goes_with_the_one_that_has_the_devices(
    unanswered: Client,
) -> None:
    """Controller-manager reserves the claim for it, though it never starts there: the devices are free when both are gone."""
    made = trial(unanswered, 1)
    made.world.node("n2")
    holds_with(made, "elsewhere", node="n2", reserves=True)
    await made.passes()
    assert sorted(made.evicted) == ["elsewhere", "low"]


async def test_nobody_goes_whose_claim_another_pod_is_about_to_start_with(unanswered: Client) -> None:
    """Its scheduler has reserved the claim, and binds it in a moment."""
    made = trial(unanswered, 1)
    holds_with(made, "starting", node=None, reserves=True)
    await made.passes()
    assert made.evicted == []
