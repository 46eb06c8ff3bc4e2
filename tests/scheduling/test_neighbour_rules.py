"""Which pods have to go before another one may go to a node: compared with all that could go, one set after the other."""

from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.kinds import PODS
from apportion.dra.pod import Pod
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.room.obstacles import Obstacles
from apportion.scheduling.room.placedpods import PlacedPods
from tests.observedcluster import Json, ObservedCluster

HOST, ZONE = "kubernetes.io/hostname", "zone"
NODES = {"n1": "a", "n2": "a", "n3": "b"}
Drawn = dict[str, Any]

pods = st.fixed_dictionaries(
    {
        "app": st.sampled_from(["web", "db"]),
        "port": st.sampled_from([None, 80, 81]),
        "shuns": st.sampled_from([None, (HOST, "web"), (ZONE, "web"), (HOST, "db")]),
        "goes": st.booleans(),
    }
)
placed = st.lists(st.tuples(st.sampled_from([*NODES]), pods), max_size=5)
spreads = st.sampled_from([None, (HOST, 1), (ZONE, 1), (ZONE, 2)])


def spec_of(drawn: Drawn, node: str = "", spread: tuple[str, int] | None = None) -> Json:
    ports = [{"containerPort": 80, "hostPort": drawn["port"]}] if drawn["port"] else []
    spec: Json = {"nodeName": node, "priority": 0 if drawn["goes"] else 9}
    spec["containers"] = [{"name": "main", "ports": ports}]
    if drawn["shuns"]:
        key, app = drawn["shuns"]
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": required}
    if spread is not None:
        selector = {"matchLabels": {"app": "web"}}
        own = {"topologyKey": spread[0], "maxSkew": spread[1], "labelSelector": selector}
        spec["topologySpreadConstraints"] = [own | {"whenUnsatisfiable": "DoNotSchedule"}]
    return spec


def comes(world: ObservedCluster, name: str, app: str, spec: Json) -> Pod:
    raw = {"metadata": {"name": name, "namespace": "team", "labels": {"app": app}}, "spec": spec}
    return world.pod_value(world.see(PODS, raw))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(placed, pods, spreads)
def test_what_has_to_go_is_what_rules_a_node_out(
    there: list[tuple[str, Drawn]], asked: Drawn, spread: tuple[str, int] | None
) -> None:
    """A node is ruled out exactly as long as too few of its obstacles have gone, and for good exactly if too few of them go."""
    world = ObservedCluster()
    for name, zone in NODES.items():
        world.node(name, **{HOST: name, ZONE: zone})
    known = [
        comes(world, f"p{number}", drawn["app"], spec_of(drawn, node))
        for number, (node, drawn) in enumerate(there)
    ]
    pod = comes(world, "asks", asked["app"], spec_of(asked, spread=spread))
    placed_pods = PlacedPods(world.snapshot, lambda each: each.node, ChangeLog())
    neighbours = Neighbours(world.snapshot, placed_pods, HostCapacity())

    def ruled_out(node: str, gone: tuple[Pod, ...]) -> bool:
        with placed_pods.without(gone):
            return any(node in nodes for _, nodes in neighbours.ruled_out(pod))

    obstacles = Obstacles([pod], neighbours)
    wanted = obstacles.wanted([pod])
    kept_off = [nodes for _, nodes in neighbours.ruled_out(pod, lambda each: not each.priority)]
    for node in NODES:
        here, found = [each for each in known if each.node == node], obstacles.on(node)
        for gone in chain.from_iterable(combinations(here, size) for size in range(len(here) + 1)):
            stays = found.stay(wanted, frozenset(each.uid for each in gone))
            assert stays == ruled_out(node, gone)
            room = {name: found.left[name] + found.freed(gone)[name] for name in wanted}
            assert any(amount < wanted[name] for name, amount in room.items()) == stays
        going = tuple(each for each in here if not each.priority)
        assert any(node in nodes for nodes in kept_off) == ruled_out(node, going)
