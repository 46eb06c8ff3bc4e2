"""A driver times out, its agent is killed, and the driver makes the partition after all: the next agent knows whose it is."""

from contextlib import suppress

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.errors import Lost
from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.places import H100, partition_place
from tests.agent.simulatednode import MakeNode, SimulatedNode

DEVICE, OTHER = "gpu-0-mig-1g10gb-19-3", "gpu-0-mig-1g10gb-19-0"
BUSY = {"failures": [{"verb": "create", "error": "Busy", "times": 1000}]}


async def _reason(node: SimulatedNode) -> str:
    conditions = (await node.see(DEVICE)).get("status", {}).get("conditions", [{"reason": ""}])
    return str(conditions[0]["reason"])


async def test_what_a_driver_makes_after_its_agent_was_killed_is_removed(make_node: MakeNode) -> None:
    """Nobody remembered that it may come: its object went at the next start, and what came then was nobody's."""
    async with make_node(cards=[H100], faults=BUSY) as node, killed_agent(node, "never") as agent:
        await node.partition(DEVICE, "1g.10gb", origin="Warm")
        await eventually(lambda: _reason(node), lambda reason: reason == "Busy")
        await node.remove(DEVICE)
        await node.phase(DEVICE, "Releasing")
        await agent.stop()
        with node.switchboard() as state:
            state["faults"]["failures"] = []
        await node.partition(OTHER, "1g.10gb", origin="Warm")
        await agent.start()
        # A round removes before it creates: the next agent has looked for the first one.
        await node.phase(OTHER, "Idle")
        backend = SimulatedBackend(node.folder / "node.yaml", node.name)
        # The agent may remove it before it is whole.
        with suppress(Lost):
            backend.create(partition_place(backend, "gpu-0", "1g.10gb", 3))

        async def hardware() -> list[Json]:
            return node.hardware()

        await eventually(lambda: node.see(DEVICE), lambda item: item == {})
        await eventually(hardware, lambda rows: len(rows) == 1)
        assert journal_steps(node)[0] == ["Ready"]
