"""What claims say of the health of their devices when agents come and go."""

import pytest

from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.kubelet.claimentries import entries, says
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, SimulatedNode

LOST, WELL = ("False", "Lost"), ("True", "Healthy")


def lose(node: SimulatedNode, *cards: str) -> None:
    """Let these cards be lost, and no others."""
    with node.switchboard() as state:
        state["faults"]["lost"] = [*cards]


@pytest.mark.parametrize(("before", "then"), [(LOST, WELL), (None, LOST)])
async def test_what_became_of_a_card_while_no_agent_ran_shows_in_its_claims(
    make_node: MakeNode,
    namespace: str,
    control_plane: ControlPlane,
    before: tuple[str, str] | None,
    then: tuple[str, str],
) -> None:
    """The agent is killed, and the next one puts right what the status says; it writes nothing into claims on other cards."""
    async with make_node(cards=[H100 | {"count": 2}]) as node:
        async with killed_agent(node, "never") as agent:
            claims = [await node.claim(namespace, f"claim-{n}", f"gpu-{n}") for n in range(2)]
            for claim in claims:
                answer = await agent.insist(lambda claim=claim: eventually(lambda: node.prepare(claim), bool))  # type: ignore[misc]
                assert answer[claim["metadata"]["uid"]].error == ""
                await eventually(lambda claim=claim: entries(node.api, claim), bool)  # type: ignore[misc]
            if before is LOST:
                lose(node, "gpu-0")
                await eventually(lambda: says(node.api, claims[0]), lambda found: found == LOST)
        lose(node, *(["gpu-0"] if then is LOST else []))
        async with killed_agent(node, "never"):
            await eventually(lambda: says(node.api, claims[0]), lambda found: found == then)
            lose(node, "gpu-0", "gpu-1")
            await eventually(lambda: says(node.api, claims[1], "gpu-1"), lambda found: found == LOST)

        async def patches() -> int:
            return sum(
                (each.verb, each.namespace, each.name) == ("patch", namespace, "claim-1")
                and each.user.endswith(":apportion-agent")
                for each in control_plane.audited()
            )

        # The log of requests has one a moment after its object can be read.
        assert await eventually(patches, lambda count: count >= 2) == 2, "it was prepared, and lost"


async def test_a_claim_that_is_prepared_anew_on_a_card_that_recovered_says_so(
    make_node: MakeNode, namespace: str
) -> None:
    """Its allocation and its status have outlived the preparation in which the card was lost."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "comes-back", "gpu-0")
        assert await node.prepared(claim) == ""

        async def tainted() -> bool:
            # The agent prepares, and says in the claim how its card is, before it has published.
            taints = (await node.devices()).get("gpu-0", {}).get("taints", ())
            return "apportion.dev/unhealthy" in {taint["key"] for taint in taints}

        lose(node, "gpu-0")
        await eventually(lambda: says(node.api, claim), lambda found: found == LOST)
        await eventually(tainted)
        assert await node.unprepared(claim) == ""
        lose(node)
        await eventually(tainted, lambda found: not found)
        assert await node.prepared(claim) == ""
        await eventually(lambda: says(node.api, claim), lambda found: found == WELL)
