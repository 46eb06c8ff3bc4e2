"""A partition row for tests of the journal, also in processes of their own."""

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.rows import PartitionRow, Step

ROW = PartitionRow(
    uid="p1",
    name="node-a-x",
    device="x",
    place=PartitionPlace("gpu-0", "1g.10gb", Placement(3, 1)),
    step=Step.INTENT,
)
