"""Nodes with a card each, and what layouts want there."""

from apportion.api.contract import STATIC_SUFFIX
from apportion.cel import Programs
from apportion.cluster.kinds import PARTITIONS, SLICES
from apportion.partitions.actions import Create
from apportion.partitions.layoutplanner import layout_plans
from apportion.partitions.layouts import LayoutPlan
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


def show_cut(
    world: ObservedCluster, found: LayoutPlan, phase: str = "Ready", *, published: bool = True
) -> None:
    """Show what was wanted as made, and as published."""
    for action in found.actions:
        if isinstance(action, Create):
            spec = action.partition.spec
            world.see(PARTITIONS, action.partition.to_json() | {"status": {"phase": phase}})
            if published:
                publish(world, spec.node_name, *static_on(world, spec.node_name), spec.device)


def static_on(world: ObservedCluster, node: str) -> list[str]:
    """Return the partitions of layouts that a node publishes on its card."""
    devices = world.seen[SLICES, "", f"{node}-gpu-0-devices"]["spec"]["devices"]
    return [each["name"] for each in devices if each["name"].endswith(STATIC_SUFFIX)]


def publish(world: ObservedCluster, node: str, *static: str) -> None:
    """Publish a node's card with these partitions of layout `l` beside it."""
    raw = world.seen[SLICES, "", f"{node}-gpu-0-devices"]
    kept = [each for each in raw["spec"]["devices"] if not each["name"].endswith(STATIC_SUFFIX)]
    attributes = {"type": {"string": "mig"}, "layout": {"string": "l"}}
    made = [{"name": name, "attributes": attributes} for name in static]
    world.see(SLICES, raw | {"spec": raw["spec"] | {"devices": kept + made}})
