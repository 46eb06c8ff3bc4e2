"""Events where a person would look: on the Partition whose cut fails, on the Node whose cards are not as they should be."""

from apportion.agent.lifecycle.context import Timeouts
from testbed.eventually import eventually
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode

DEVICE = "gpu-0-mig-1g10gb-19-3"


async def test_a_cut_that_fails_and_then_works_is_reported_on_the_partition(make_node: MakeNode) -> None:
    """With the driver's words; the end is told to those who heard of the beginning."""
    faults = {"failures": [{"error": "Lost", "verb": "create", "card": "", "times": 1}]}
    async with make_node(cards=[H100], faults=faults) as node, node.agent(timeouts=Timeouts(failed=0.2)):
        made = await node.partition(DEVICE, "1g.10gb", origin="Warm")
        name = made["metadata"]["name"]
        (event,) = await eventually(lambda: node.events("PartitionFailed", name), bool)
        assert (event["type"], event["source"]["component"]) == ("Warning", "apportion-agent")
        assert "Lost: injected at create on gpu-0" in event["message"]
        await node.phase(DEVICE, "Idle")
        (event,) = await eventually(lambda: node.events("PartitionRecovered", name), bool)
        assert event["type"] == "Normal"


async def test_cards_that_fall_ill_and_recover_are_reported_on_the_node(make_node: MakeNode) -> None:
    """`kubectl describe node` shows it: the Event carries the Node's UID."""
    async with make_node(cards=[H100]) as node, node.agent():
        for word, reason in (("sick", "CardSick"), ("lost", "CardLost")):
            with node.switchboard() as state:
                state["faults"][word] = ["gpu-0"]
            (event,) = await eventually(lambda reason=reason: node.events(reason), bool)
            uid = (await node.api.get(f"/api/v1/nodes/{node.name}"))["metadata"]["uid"]
            assert event["involvedObject"]["uid"] == uid
            assert event["type"] == "Warning"
        with node.switchboard() as state:
            state["faults"] |= {"sick": [], "lost": []}
        await eventually(lambda: node.events("CardRecovered"), bool)


async def test_a_partition_that_somebody_made_by_hand_is_reported_on_the_node(make_node: MakeNode) -> None:
    """Which, where, and what follows; nothing is said of partitions that are ours."""
    foreign = {"card": "gpu-0", "profile": "1g.10gb", "start": 6}
    async with make_node(cards=[H100], foreign=[foreign]) as node, node.agent():
        await node.partition(DEVICE, "1g.10gb", origin="Warm")
        await node.phase(DEVICE, "Idle")
        (event,) = await eventually(lambda: node.events("ForeignPartition"), bool)
        assert "1g.10gb at 6 of gpu-0" in event["message"]
        assert "left alone" in event["message"]
