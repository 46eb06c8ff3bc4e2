"""Nodes with a card each, and what layouts want there."""

from apportion.cel import Programs
from apportion.cluster.kinds import PARTITIONS
from apportion.partitions.actions import Create
from apportion.partitions.layouts import LayoutPlan, layout_plans
from tests.observedcluster import ObservedCluster


def cards(*nodes: str) -> ObservedCluster:
    world = ObservedCluster()
    for name in nodes or ("n1",):
        world.node(name)
        world.card(name)
    return world


def plan(world: ObservedCluster) -> LayoutPlan:
    (found,) = layout_plans(world.snapshot, Programs())
    return found


def devices(found: LayoutPlan) -> list[str]:
    return [a.partition.spec.device for a in found.actions if isinstance(a, Create)]


def show_cut(world: ObservedCluster, found: LayoutPlan, phase: str = "Ready") -> None:
    """Show what was wanted as made."""
    for action in found.actions:
        if isinstance(action, Create):
            raw = action.partition.to_json()
            raw["status"] = {"phase": phase}
            world.see(PARTITIONS, raw)
