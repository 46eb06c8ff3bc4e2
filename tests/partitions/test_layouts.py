"""Static partitions: what a layout wants, and what keeps it from getting it."""

from typing import Any

import pytest

from apportion.cel import Programs
from apportion.cluster.kinds import LAYOUTS
from apportion.partitions.actions import Create, Delete
from apportion.partitions.layoutclasses import class_names
from apportion.partitions.layoutplanner import layout_plans
from apportion.partitions.layouts import LayoutPlan
from apportion.partitions.status import layout_status
from testbed.cycle import now
from tests.observedcluster import GPU, ObservedCluster
from tests.partitions.layoutworld import cards, devices, plan, show_cut

Json = dict[str, Any]


def conditions(found: LayoutPlan) -> dict[str, tuple[str, str]]:
    """Return reason and message of each condition of a layout's status."""
    return {
        each["type"]: (each["reason"], each["message"]) for each in layout_status(found, now())["conditions"]
    }


def test_a_layout_is_cut_and_kept_off_for_claims_until_it_is() -> None:
    """DynamicPartitions and not yet cut: reserved. Cut: no longer, the agent subtracts it."""
    world = cards()
    world.layout({"profile": "1g.10gb", "count": 2})
    found = plan(world)
    assert devices(found) == ["gpu-0-mig-1g10gb-19-0-static", "gpu-0-mig-1g10gb-19-1-static"]
    assert [device.name for device in found.reserved] == ["gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1"]
    show_cut(world, found)
    planned = plan(world)
    assert (planned.actions, planned.reserved, planned.unready) == ([], [], set())


def test_profiles_of_one_layout_share_a_card() -> None:
    """Each takes the first place that the others leave; a younger layout gets what is left of the card."""
    world = cards()
    world.layout({"profile": "1g.10gb", "count": 2}, {"profile": "3g.40gb", "count": 1}, name="a")
    found = plan(world)
    assert found.broken is None
    both = ["gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", "gpu-0-mig-3g40gb-9-4"]
    assert devices(found) == [f"{name}-static" for name in both]
    world.layout({"profile": "1g.10gb", "count": 1}, name="b")
    younger = layout_plans(world.snapshot, Programs())[1]
    assert [device.name for device in younger.reserved] == ["gpu-0-mig-1g10gb-19-2"]


def test_explicit_placements_are_taken_as_they_are() -> None:
    """By their first memory slice."""
    world = cards()
    world.layout({"profile": "3g.40gb", "placements": [{"start": 4}]})
    assert devices(plan(world)) == ["gpu-0-mig-3g40gb-9-4-static"]


def test_a_layout_that_cannot_fit_says_which_entry() -> None:
    """Three halves do not fit on one card."""
    world = cards()
    world.layout({"profile": "3g.40gb", "count": 3})
    found = plan(world)
    assert found.broken is not None
    assert found.broken.field == "spec.partitions[0].count"
    assert "3g.40gb does not fit on n1/gpu-0" in found.broken.reason
    assert found.actions == []


def test_an_unknown_placement_is_named() -> None:
    """A half cannot begin at slice 2."""
    world = cards()
    world.layout({"profile": "3g.40gb", "placements": [{"start": 2}]})
    found = plan(world)
    text = "spec.partitions[0].placements[0].start: 3g.40gb begins at 0 or 4 on n1/gpu-0, not at 2"
    assert str(found.broken) == text
    assert conditions(found)["Accepted"] == ("Broken", text)


WHOLE = [{"cel": {"expression": f'device.attributes["{GPU}"].type == "gpu"'}}]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"partitions": [{"profile": "1g.10gb", "count": 1}, {"profile": "3g.40g", "count": 1}]},
            "spec.partitions[1].profile: no node offers a device with profile 3g.40g; did you mean 3g.40gb?",
        ),
        ({"nodeSelector": {"matchLabels": {"no": "node"}}}, "spec.nodeSelector: it selects no node"),
        (
            {"devices": [{"cel": {"expression": 'device.driver == "gpu.aportion.dev"'}}]},
            "of 1 cards on the nodes that spec.nodeSelector selects, none is selected by spec.devices",
        ),
        (
            {"nodeSelector": {"matchLabels": {"bare": "true"}}},
            "no node that spec.nodeSelector selects has a card that can be cut",
        ),
    ],
)
def test_a_layout_that_selects_no_card_says_why(spec: Json, said: str) -> None:
    """The first of nodes, profiles and devices that leaves none; a card may come, so it is accepted."""
    world = cards()
    world.node("n2", bare="true")
    partitions = spec.pop("partitions", [{"profile": "3g.40gb", "count": 1}])
    world.layout(*partitions, **spec)
    assert conditions(plan(world)) == {"Accepted": ("Valid", ""), "Ready": ("NoCards", said)}


def test_a_profile_that_selected_cards_do_not_have_is_named() -> None:
    """With what was probably meant."""
    world = cards()
    world.layout({"profile": "1g.10bg", "count": 1}, devices=WHOLE)
    text = "spec.partitions[0].profile: n1/gpu-0 offers no 1g.10bg; did you mean 1g.10gb?"
    assert conditions(plan(world))["Accepted"] == ("Broken", text)


def test_a_card_in_use_is_left_alone() -> None:
    """By default (onlyIdle) the node counts as blocked."""
    world = cards()
    world.allocate(world.claim("c"), "n1", "gpu-0-mig-1g10gb-19-6")
    world.layout()
    found = plan(world)
    assert found.actions == []
    assert "in use" in found.blocked["n1"]


def test_without_only_idle_a_layout_takes_what_is_free() -> None:
    """A half at slice 0 fits beside a small one at slice 6."""
    world = cards()
    world.allocate(world.claim("c"), "n1", "gpu-0-mig-1g10gb-19-6")
    world.layout(rollout={"onlyIdle": False})
    assert devices(plan(world)) == ["gpu-0-mig-3g40gb-9-0-static"]


def test_only_so_many_nodes_change_at_once() -> None:
    """One (maxUnavailable) unless said otherwise; the next node follows when the first is ready."""
    world = cards("n1", "n2")
    world.layout()
    found = plan(world)
    assert [a.partition.spec.node_name for a in found.actions if isinstance(a, Create)] == ["n1"]
    show_cut(world, found)
    assert [a.partition.spec.node_name for a in plan(world).actions if isinstance(a, Create)] == ["n2"]


def test_a_changed_layout_converges() -> None:
    """What it no longer wants goes, unless a claim uses it."""
    world = cards()
    raw = world.layout({"profile": "1g.10gb", "count": 1})
    show_cut(world, plan(world))
    raw["spec"]["partitions"] = [{"profile": "3g.40gb", "placements": [{"start": 4}]}]
    world.see(LAYOUTS, raw)
    found = plan(world)
    assert [a.partition.spec.device for a in found.actions if isinstance(a, Delete)] == [
        "gpu-0-mig-1g10gb-19-0-static"
    ]
    world.slice("n1", "static", {"devices": [{"name": "gpu-0-mig-1g10gb-19-0-static"}]}, 3)
    world.allocate(world.claim("c"), "n1", "gpu-0-mig-1g10gb-19-0-static")
    assert not any(isinstance(action, Delete) for action in plan(world).actions)


def test_a_selector_that_does_not_compile_is_named() -> None:
    """The same CEL as in claims, with the same care."""
    world = cards()
    world.layout(devices=[{"cel": {"expression": "device.nonsense"}}])
    found = plan(world)
    assert found.broken is not None
    assert found.broken.field == "spec.devices[0].cel.expression"
    assert conditions(found)["Ready"] == ("NoCards", str(found.broken))


def test_a_layout_makes_a_class_per_profile_that_names_layout_and_profile() -> None:
    """Managed, owned by the layout, and it matches nothing but its partitions."""
    world = cards()
    world.layout({"profile": "1g.10gb", "count": 1}, name="small")
    (made,) = plan(world).classes
    assert made["metadata"]["name"] == "small-1g-10gb"
    assert made["metadata"]["labels"]["apportion.dev/managed"] == "true"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "PartitionLayout"
    text = made["spec"]["selectors"][0]["cel"]["expression"]
    program = Programs().get(text)
    assert hasattr(program, "match")
    devices_of = {device.name: device for found in world.snapshot.slices.values() for device in found.devices}
    assert not program.match(devices_of["gpu-0-mig-1g10gb-19-0"])


def test_the_classes_of_a_layout_are_wanted_even_while_no_node_publishes_anything() -> None:
    """Slices are wiped when a node's plugin restarts: its claims' classes must not go with them."""
    world = ObservedCluster()
    world.layout({"profile": "1g.10gb", "count": 1}, {"profile": "3g.40gb", "count": 1}, name="small")
    (found,) = layout_plans(world.snapshot, Programs())
    assert found.classes == []
    assert class_names(found.layout) == {"small-1g-10gb", "small-3g-40gb"}


def test_two_layouts_share_a_card() -> None:
    """The younger one gets what the older one leaves."""
    world = cards()
    world.layout(name="older")
    show_cut(world, layout_plans(world.snapshot, Programs())[0])
    raw = world.layout(name="younger")
    raw["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    world.see(LAYOUTS, raw)
    younger = layout_plans(world.snapshot, Programs())[1]
    assert devices(younger) == ["gpu-0-mig-3g40gb-9-4-static"]


def test_profiles_whose_classes_would_have_one_name_are_named() -> None:
    """The class was changed from one into the other as fast as the API server answered."""
    world = cards()
    world.layout({"profile": "1g.24gb+me", "count": 1}, {"profile": "1g.24gb-me", "count": 1}, name="both")
    accepted = conditions(plan(world))["Accepted"]
    text = (
        "DeviceClass both-1g-24gb-me would be that of 1g.24gb+me, too: a layout of its own makes another one"
    )
    assert accepted == ("Broken", f"spec.partitions[1].profile: {text}")
    world.layout(
        {"profile": "1g.24gb+me", "count": 1},
        {"profile": "1g.24gb-me", "count": 1},
        name="both",
        deviceClasses={"create": False},
    )
    assert conditions(plan(world))["Accepted"] == ("Valid", "")
