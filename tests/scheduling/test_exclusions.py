"""Places that did not work out."""

from itertools import count

import pytest

from apportion.dra.device import DeviceId
from apportion.dra.node import Node
from apportion.scheduling.candidates.exclusions import ZONE, Exclusions
from tests.clock import Clock

NODE = Node("n1", "uid")


def test_a_refused_node_is_left_out_for_longer_each_time() -> None:
    """Never a loop: 10 s, 20 s, 40 s, at most five minutes."""
    clock = Clock()
    exclusions = Exclusions(clock)
    pauses = []
    for _ in range(7):
        pauses.append(exclusions.refuse_node("pod", NODE))
        clock.now += pauses[-1]
    assert pauses == [10, 20, 40, 80, 160, 300, 300]
    exclusions.refuse_node("pod", NODE)
    assert exclusions.nodes(["pod"], lambda _: NODE) == {"n1"}
    assert exclusions.nodes(["other"], lambda _: NODE) == frozenset()
    clock.now += 301
    assert exclusions.nodes(["pod"], lambda _: NODE) == frozenset()


def tries(exclusions: Exclusions, nodes: list[Node], good: str) -> int:
    """Return how many nodes are tried until one of the good zone is, each time the first that is not left out."""
    current = {node.name: node for node in nodes}.get
    for number in count(1):
        left_out = exclusions.nodes(["pod"], current)
        node = next(node for node in nodes if node.name not in left_out)
        if node.labels[ZONE] == good:
            return number
        exclusions.refuse_node("pod", node, nodes)
    raise AssertionError


def test_a_zone_that_does_not_suit_is_left_after_a_few_tries() -> None:
    """Each refusal leaves out twice as many nodes of the zone, and nodes of other zones stay."""
    nodes = [Node(f"n{number}", "u", labels={ZONE: "bad"}) for number in range(400)]
    nodes.append(Node("only", "u", labels={ZONE: "good"}))
    assert tries(Exclusions(Clock()), nodes, "good") <= 10


def test_nodes_that_were_left_out_with_another_come_back_before_it_is_left_out_for_longer() -> None:
    """They were not tried: what rules the other out may not concern them. Twenty seconds for each other node that was refused is the least."""
    clock = Clock()
    exclusions = Exclusions(clock)
    nodes = [Node(f"n{number}", "u", labels={ZONE: "a"}) for number in range(4)]
    current = {node.name: node for node in nodes}.get
    exclusions.refuse_node("pod", nodes[3], nodes)
    exclusions.refuse_node("pod", nodes[2], nodes)
    assert exclusions.nodes(["pod"], current) == {"n0", "n2", "n3"}
    exclusions.refuse_node("pod", nodes[1], nodes)
    assert exclusions.nodes(["pod"], current) == {"n0", "n1", "n2", "n3"}
    clock.now += 10
    assert exclusions.nodes(["pod"], current) == {"n1", "n2"}
    assert exclusions.refuse_node("pod", nodes[3], nodes) == 40
    assert exclusions.refuse_node("pod", nodes[0], nodes) == 60


@pytest.mark.parametrize("zones", [1, 3])
@pytest.mark.parametrize(("nodes", "seconds"), [(6, 2), (20, 12), (200, 2)])
def test_the_one_node_that_suits_is_tried_within_an_hour(zones: int, nodes: int, seconds: int) -> None:
    """kube-scheduler refuses all but the one that is chosen last; a try takes some seconds. The first ones are not tried for ever."""
    clock = Clock()
    exclusions, tried = Exclusions(clock), list[str]()
    rows = [Node(f"n{number:03}", "u", labels={ZONE: f"z{number % zones}"}) for number in range(nodes)]
    current = {node.name: node for node in rows}.get
    while clock.now < 3600 and rows[-1].name not in tried:
        left_out = exclusions.nodes(["pod"], current)
        node = next((node for node in rows if node.name not in left_out), None)
        if node is None:
            clock.now += 1
            continue
        tried.append(node.name)
        clock.now += seconds
        exclusions.refuse_node("pod", node, rows)
    assert rows[-1].name in tried, f"{len(tried)} tries in {clock.now:.0f} s, of {len({*tried})} nodes"


def test_a_node_that_changed_gets_another_chance_at_once() -> None:
    """What the scheduler minded may be gone."""
    exclusions = Exclusions(Clock())
    exclusions.refuse_node("pod", NODE)
    changed = Node("n1", "uid", labels={"new": "label"})
    assert exclusions.nodes(["pod"], lambda _: changed) == frozenset()


def test_a_device_that_could_not_be_cut_is_left_out_for_everybody() -> None:
    """Until its time is over."""
    clock = Clock()
    exclusions = Exclusions(clock)
    device = DeviceId("d", "p", "gpu-0-mig-1g10gb-19-0")
    seconds = exclusions.refuse_device(device)
    assert exclusions.devices() == {device}
    clock.now += seconds
    assert exclusions.devices() == frozenset()


def test_one_refusal_that_is_seen_many_times_counts_once() -> None:
    """A failed cut stands in the picture for several passes, until the claim's clearing has been echoed."""
    clock = Clock()
    exclusions = Exclusions(clock)
    device = DeviceId("d", "p", "gpu-0-mig-1g10gb-19-0")
    for _ in range(7):
        exclusions.refuse_device(device)
    clock.now += 10
    assert exclusions.devices() == frozenset()


def test_a_claim_that_was_given_back_rests_twice_as_long_each_time() -> None:
    """From the time that its policy allows, to an hour; once a pod has reserved it, all begins anew."""
    clock = Clock()
    exclusions = Exclusions(clock)
    pauses = []
    for _ in range(8):
        pauses.append(exclusions.rest("claim", least=60))
        assert exclusions.rests("claim") == pauses[-1]
        clock.now += pauses[-1]
        assert exclusions.rests("claim") == 0
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    exclusions.forget_claims(lambda _: False)
    assert exclusions.rest("claim", least=60) == 60


def test_the_epoch_changes_when_one_exclusion_ends_as_another_begins() -> None:
    """A demand that was refused is asked again: what kept it off may be what has ended."""
    clock = Clock()
    exclusions = Exclusions(clock)
    epochs = [exclusions.epoch()]
    exclusions.refuse_node("pod", NODE)
    epochs.append(exclusions.epoch())
    clock.now += 10
    exclusions.refuse_device(DeviceId("d", "p", "gpu-0"))
    epochs.append(exclusions.epoch())
    clock.now += 10
    exclusions.rest("claim", least=60)
    epochs.append(exclusions.epoch())
    assert exclusions.epoch() == epochs[-1]
    assert len(set(epochs)) == len(epochs)


def test_what_fails_for_days_is_left_out_for_as_long_as_at_last_each_time() -> None:
    """A card that is broken for good, or a pod that fits nowhere, is tried every five minutes: a thousand times in four days."""
    clock = Clock()
    exclusions = Exclusions(clock)
    device = DeviceId("d", "p", "gpu-0-mig-1g10gb-19-0")
    for _ in range(2000):
        pauses = exclusions.refuse_device(device), exclusions.refuse_node("pod", NODE)
        rest = exclusions.rest("claim", least=60)
        clock.now += 3600
    assert (pauses, rest) == ((300, 300), 3600)
