"""Claims of a group's pods that are reserved with their allocation (ADR 23): whose reservation it is decides whether they are in use."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.demands.consumers import is_taken_up
from tests.scheduling.givenback import tried
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import (
    reserved_ahead,
)


@pytest.mark.parametrize(("gates", "given_back"), [((GATE,), ["kept"]), ((), [])])
async def test_a_pod_that_joined_a_group_after_it_was_reserved_gives_its_devices_back_with_the_group(
    unanswered: Client, gates: tuple[str, ...], given_back: list[str]
) -> None:
    """The reservation is ours: behind its gate it has not started, and the group is incomplete. Without a gate it may have."""
    world = fleet({"n1": ("h100", 1)})
    pod, _ = reserved_ahead(world, "kept", gates=gates)
    said = {
        "labels": {"apportion.dev/pod-group": "g"},
        "annotations": {"apportion.dev/pod-group-min-count": "2"},
    }
    world.see(PODS, pod | {"metadata": pod["metadata"] | said})
    assert await tried(world.cycle(unanswered)) == given_back


async def test_what_a_podgroup_has_reserved_is_in_use_though_its_pods_are_gated(unanswered: Client) -> None:
    """Others of the group may run with it: it is neither given back with the group nor for an overlap."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world, "kept")
    said = {
        "labels": {"apportion.dev/pod-group": "g"},
        "annotations": {"apportion.dev/pod-group-min-count": "2"},
    }
    world.see(PODS, pod | {"metadata": pod["metadata"] | said})
    of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group"}
    claim["status"]["reservedFor"] = [of_group]
    world.see(CLAIMS, claim)
    assert is_taken_up(world.claim_value(claim), world.snapshot)
    assert await tried(world.cycle(unanswered)) == []
