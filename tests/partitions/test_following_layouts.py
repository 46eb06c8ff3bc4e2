"""Plans of layouts follow the cards that changed, and are those that are made of all cards anew."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.partition import Partition
from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.cluster.indexes.deviceindex import DeviceIndex, device_of
from apportion.cluster.kinds import CLAIMS, LAYOUTS, NODES, PARTITIONS, SLICES
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Create, Delete, SetHolder
from apportion.partitions.card import is_static
from apportion.partitions.layoutholds import LayoutHolds
from apportion.partitions.layoutplanner import LayoutPlanner, layout_plans
from apportion.partitions.layouts import LayoutPlan, orphans
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.partitions.layoutworld import cards, publish, show_cut
from tests.partitions.manycards import controller
from tests.partitions.onecard import FIRST, HALF, SECOND
from tests.steps import steps

NODE, LAYOUT = st.sampled_from(["n0", "n1", "n2"]), st.sampled_from(["a", "b"])
DEVICE = st.sampled_from(["gpu-0", FIRST, SECOND, HALF])
WANTED: list[list[Json]] = [
    [{"profile": "1g.10gb", "count": 2}],
    [{"profile": "3g.40gb", "count": 1}],
    [{"profile": "1g.10gb", "placements": [{"start": 1}]}, {"profile": "3g.40gb", "count": 1}],
    [{"profile": "9g.90gb", "count": 1}],
]
SELECTORS = ["device.driver != ''", "device.attributes['gpu.apportion.dev'].odd == 'x'"]
"""The second one fails on cards that are not odd."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NODE, st.sampled_from(["", "a", "b"])),
        st.tuples(st.just("no node"), NODE),
        st.tuples(st.just("card"), NODE, st.booleans()),
        st.tuples(st.just("no card"), NODE, st.booleans()),
        st.tuples(st.just("layout"), LAYOUT, st.integers(0, 3), st.integers(0, 11)),
        st.tuples(st.just("no layout"), LAYOUT),
        st.tuples(st.just("do"), st.integers(0, 5), st.sampled_from(["Pending", "Ready", "Failed"])),
        st.tuples(
            st.just("phase"), st.integers(0, 5), st.sampled_from(["Ready", "Failed", "in use", "going"])
        ),
        st.tuples(st.just("gone"), st.integers(0, 5)),
        st.tuples(st.just("publish"), NODE),
        st.tuples(st.just("claim"), st.integers(0, 2), NODE, DEVICE, st.booleans()),
        st.tuples(st.just("no claim"), st.integers(0, 2)),
        st.tuples(st.just("hold"), st.sampled_from(["x", "y"]), NODE, DEVICE),
        st.tuples(st.just("let go"), st.sampled_from(["x", "y"])),
    ),
    min_size=5,
    max_size=40,
)
"""What happens to nodes, cards, layouts and their partitions, and who has devices of the cards."""


def make_odd(world: ObservedCluster, node: str) -> None:
    """Publish a node's card with one attribute more."""
    raw = world.seen[SLICES, "", f"{node}-gpu-0-devices"]
    own = {"odd": {"string": "x"}}
    devices = [each | {"attributes": each["attributes"] | own} for each in raw["spec"]["devices"]]
    world.see(SLICES, raw | {"spec": raw["spec"] | {"devices": devices}})


class Following:
    """A world with two nodes and a layout that has begun, and a planner that has followed it since."""

    def __init__(self) -> None:
        self.world = cards("n0", "n1")
        self.world.node("n0", zone="a")
        self.world.layout(*WANTED[0], name="a")
        show_cut(self.world, layout_plans(self.world.snapshot, Programs())[0])
        self.planner = LayoutPlanner(self.world.snapshot, Programs(), at_once=1)
        self._holds = LayoutHolds(self.world.snapshot)

    def plans(self) -> list[LayoutPlan]:
        """Return the plans, and hold what they want, as the controller does."""
        found, snapshot = self.planner.plans(), self.world.snapshot
        for device in self._holds.follow(found, orphans(snapshot, found)):
            snapshot.devices.touch(device)
        self.planner.pass_over()
        return found

    def step(self, *happens: Any) -> None:
        """Let one thing happen, as far as there is what it is about."""
        self._of_cluster(*happens)
        self._of_partitions(*happens)
        self._of_claims(*happens)

    def _of_cluster(self, *happens: Any) -> None:
        world, seen = self.world, self.world.seen
        match happens:
            case "node", name, zone:
                world.node(name, **({"zone": zone} if zone else {}))
            case "no node", name if (NODES, "", name) in seen:
                world.gone(NODES, seen.pop((NODES, "", name)))
            case "card", name, odd:
                world.card(name)
                if odd:
                    make_odd(world, name)
            case "no card", name, whole:
                for part in ("devices", "counters") if whole else ("devices",):
                    if (key := (SLICES, "", f"{name}-gpu-0-{part}")) in seen:
                        world.gone(SLICES, seen.pop(key))
            case "layout", name, wanted, how:
                spec: Json = {"rollout": {"maxUnavailable": 1 + how % 2, "onlyIdle": how % 3 == 0}}
                if how > 5:
                    spec["nodeSelector"] = {"matchLabels": {"zone": "a"}}
                if how % 4 == 3:
                    spec["devices"] = [{"cel": {"expression": SELECTORS[how // 8]}}]
                world.layout(*WANTED[wanted], name=name, **spec)
            case "no layout", name if (LAYOUTS, "", name) in seen:
                world.gone(LAYOUTS, seen.pop((LAYOUTS, "", name)))

    def _of_claims(self, *happens: Any) -> None:
        world, seen = self.world, self.world.seen
        match happens:
            case "claim", number, node, device, static:
                name = device + (STATIC_SUFFIX if static and device != "gpu-0" else "")
                world.allocate(world.claim(f"c{number}"), node, name)
            case "no claim", number if (key := (CLAIMS, "team", f"c{number}")) in seen:
                world.gone(CLAIMS, seen.pop(key))
            case "hold", key, node, device:
                world.snapshot.state.hold(key, [DeviceResult("r", DeviceId(GPU, node, device))])
            case "let go", key:
                world.snapshot.state.release(key)

    def _of_partitions(self, *happens: Any) -> None:
        world, seen = self.world, self.world.seen
        partitions = sorted(key for key in seen if key[0] == PARTITIONS)
        match happens:
            case "do", number, phase:
                self._do(number, phase)
            case "phase", number, phase if number < len(partitions):
                self._tell(seen[partitions[number]], phase)
            case "gone", number if number < len(partitions):
                world.gone(PARTITIONS, seen.pop(partitions[number]))
            case "publish", name if (SLICES, "", f"{name}-gpu-0-devices") in seen:
                names = [raw["spec"] for key, raw in seen.items() if key[0] == PARTITIONS]
                publish(world, name, *(each["device"] for each in names if each["nodeName"] == name))

    def _do(self, number: int, phase: str) -> None:
        """Carry out one of the actions that are planned."""
        actions = [action for plan in self.plans() for action in plan.actions]
        if number >= len(actions):
            return
        raw = actions[number].partition.to_json()
        match actions[number]:
            case Create():
                self.world.see(PARTITIONS, raw | {"status": {"phase": phase}})
            case SetHolder(holder=holder) if holder is not None:
                self.world.see(PARTITIONS, raw | {"spec": raw["spec"] | {"holder": holder.to_json()}})
            case Delete():
                self._tell(raw, "going")

    def _tell(self, raw: Json, phase: str) -> None:
        if phase == "going":
            metadata = raw["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.world.see(PARTITIONS, raw | {"metadata": metadata})
        elif phase == "in use":
            status = raw.get("status", {}) | {"preparedBy": ["uid"]}
            self.world.see(PARTITIONS, raw | {"status": status})
        else:
            self.world.see(PARTITIONS, raw | {"status": {"phase": phase}})


def said(plan: LayoutPlan) -> dict[str, Any]:
    """Return all that a plan says."""
    return {
        "layout": plan.layout.metadata.name,
        "actions": sorted(map(repr, plan.actions)),
        "reserved": sorted(plan.reserved),
        "classes": plan.classes,
        "desired": plan.desired,
        "unready": plan.unready,
        "unselected": plan.unselected,
        "blocked": plan.blocked,
        "passing": sorted(plan.passing),
        "broken": str(plan.broken),
    }


def is_unsettled(partition: Partition, devices: DeviceIndex) -> bool:
    """Say whether a partition of a layout is being deleted, or no slice has it."""
    return partition.metadata.deletion_timestamp is not None or devices.device(device_of(partition)) is None


@pytest.mark.slow
@settings(max_examples=120)
@given(STEPS)
def test_plans_that_follow_are_those_made_anew(happening: list[tuple[Any, ...]]) -> None:
    """Whatever came and went before, and while cards were looked at."""
    following = Following()
    for step in happening:
        looks = following.planner.steps()
        next(looks, None)
        following.step(*step)
        next(looks, None)
        snapshot = following.world.snapshot
        anew = [said(each) for each in layout_plans(snapshot, Programs())]
        assert [said(each) for each in following.plans()] == anew
        devices = snapshot.devices
        static = [p for uid in devices.layouts for p in devices.of_layout(uid) if is_static(p)]
        unsettled = {p.metadata.uid: p for p in static if is_unsettled(p, devices)}
        assert devices.unsettled == unsettled
        assert devices.objectless == {each for each in devices.static if devices.partition(each) is None}


@pytest.mark.parametrize(("state", "most"), [("cut", 1), ("to be cut", 50)])
async def test_a_change_costs_the_same_however_many_cards_there_are(
    unanswered: Client, state: str, most: int
) -> None:
    """Layouts are planned in each pass after a claim came or went; what they hold themselves is no news to them."""
    counts = []
    for nodes in (4, 24):
        world = cards(*(f"n{number}" for number in range(nodes)))
        world.layout({"profile": "1g.10gb", "count": 2})
        planning = controller(world, unanswered)
        while state == "cut" and (todo := layout_plans(world.snapshot, Programs())[0]).actions:
            show_cut(world, todo)
        assert planning.reserve()
        world.allocate(world.claim("c"), "n0", HALF)
        counts.append(steps(planning.reserve))
    # To look at a card takes hundreds of calls, to hold what is to be cut on it a few.
    assert counts[1] - counts[0] < most * 20


def test_others_run_while_many_cards_are_looked_at() -> None:
    """When an operator begins, or a layout comes; the plan is a moment then."""
    world = cards(*(f"n{number}" for number in range(200)))
    world.layout({"profile": "1g.10gb", "count": 2})
    planner = LayoutPlanner(world.snapshot, Programs())
    assert sum(1 for _ in planner.steps()) >= 3
    assert steps(planner.plans) < steps(lambda: layout_plans(world.snapshot, Programs())) / 50


def test_a_layout_that_works_nowhere_keeps_no_other_from_a_place() -> None:
    """Its selector fails on one card of two, so that it does nothing on the other one either."""
    world = cards("n0", "n1")
    make_odd(world, "n0")
    world.layout(*WANTED[1], name="a", devices=[{"cel": {"expression": SELECTORS[1]}}])
    world.layout(*WANTED[1], name="b")
    broken, sound = layout_plans(world.snapshot, Programs())
    assert "odd" in str(broken.broken)
    assert not broken.reserved
    assert {(each.pool, each.name) for each in sound.reserved} == {("n0", HALF), ("n1", HALF)}


def test_a_node_may_change_while_its_cards_are_looked_at() -> None:
    """All of them are looked at again."""
    world = cards("n0")
    world.card("n0", "gpu-1")
    world.node("n0", zone="a")
    world.layout(*WANTED[0], name="a", nodeSelector={"matchLabels": {"zone": "a"}})
    planner = LayoutPlanner(world.snapshot, Programs(), at_once=1)
    looks = planner.steps()
    next(looks)
    next(looks)
    world.node("n0", zone="b")
    for _ in looks:
        pass
    (plan,) = planner.plans()
    assert (plan.desired, plan.reserved) == (set(), [])
