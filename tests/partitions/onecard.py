"""One node with one card, and what is done there."""

from apportion.api.partition import Partition
from apportion.cluster.kinds import PARTITIONS
from apportion.partitions.actions import Action, Create, Delete, SetHolder
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.clock import Clock
from tests.observedcluster import ObservedCluster

FIRST = "gpu-0-mig-1g10gb-19-0"
SECOND = "gpu-0-mig-1g10gb-19-1"
HALF = "gpu-0-mig-3g40gb-9-0"


class OneCard:
    """One node with one card, and what the controller would do there."""

    def __init__(self) -> None:
        self.world = ObservedCluster()
        self.world.node("n1")
        self.world.card("n1")
        self.world.device_class("gpu")
        self.clock = Clock(0.0)
        self.wanted = DynamicPartitions(self.clock)

    def actions(self) -> list[Action]:
        return self.wanted.actions(self.world.snapshot)

    def carry_out(self) -> list[Action]:
        """Do what is wanted, as the API server and the agent would show it."""
        done = self.actions()
        for action in done:
            raw = action.partition.to_json()
            match action:
                case Create():
                    raw["status"] = {"phase": "Ready", "uuid": f"MIG-{raw['spec']['device']}"}
                    self.world.see(PARTITIONS, raw)
                case SetHolder(holder=holder):
                    raw["spec"].pop("holder", None)
                    if holder is not None:
                        raw["spec"]["holder"] = holder.to_json()
                    self.world.see(PARTITIONS, raw)
                case Delete():
                    self.world.gone(PARTITIONS, raw)
        return done

    def partitions(self) -> dict[str, Partition]:
        return {p.spec.device: p for p in self.world.snapshot.partitions.values()}
