"""Places that did not work out."""

from apportion.dra.device import DeviceId
from apportion.dra.node import Node
from apportion.scheduling.exclusions import Exclusions
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
