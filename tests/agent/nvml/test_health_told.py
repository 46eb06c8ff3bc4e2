"""What the driver reports, from its C interface to what kubelet hears."""

from apportion.agent.proto.health_v1_pb2 import HEALTHY, UNHEALTHY
from testbed.eventually import eventually
from tests.agent.nvml.test_agent import MakeFake, faked
from tests.agent.simulated_node import GPU
from tests.agent.test_crashes import doomed
from tests.agent.test_health_stream import MIG, heard

__all__ = ["faked"]


async def test_an_error_that_the_driver_reports_reaches_kubelet(faked: MakeFake) -> None:
    """Memory errors and a lost GPU until they are over; an XID error of the GPU's, not one that a program brought upon itself."""
    async with faked() as (node, fake), doomed(node, "never"):

        async def serving() -> bool:
            return (node.folder / "r" / f"{GPU}-reg.sock").exists()

        await eventually(serving, bool)
        async with node.health() as lists:
            fake.xid(0, 13)
            found = await heard(lists, bool)
            assert {row.health for row in found.values()} == {HEALTHY}
            fake.ecc(0, 1)
            await heard(lists, lambda rows: rows["gpu-0"].health == UNHEALTHY)
            fake.ecc(0, 0)
            await heard(lists, lambda rows: rows["gpu-0"].health == HEALTHY)
            fake.lose(0)
            found = await heard(lists, lambda rows: rows["gpu-0"].health == UNHEALTHY)
            assert "does not answer" in found["gpu-0"].message
            fake.heal()
            await heard(lists, lambda rows: rows["gpu-0"].health == HEALTHY)
            fake.xid(0, 79)
            await heard(lists, lambda rows: rows[MIG].health == UNHEALTHY)
