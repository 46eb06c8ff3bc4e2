"""Pods that ask for an extended resource behind which there is a DeviceClass, beside their claim, are made room for as others are."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.scheduling.evicting import ends, holds, trial
from tests.scheduling.test_extended_resources import named, plugin
from tests.scheduling.test_other_claims import beside

NIC = "example.com/nic"


@pytest.mark.parametrize("served_by", ["devices", "plugin"])
async def test_pods_go_for_one_that_asks_for_an_extended_resource_beside_its_claim(
    unanswered: Client, served_by: str
) -> None:
    """kube-scheduler finds a device for it on the node, of which `status.allocatable` says nothing; a device plugin's are counted."""
    made = trial(unanswered, 1)
    made.world.device_class("gpu", 'device.driver == "gpu.apportion.dev"')
    if served_by == "plugin":
        plugin(made.world, "n1", NIC, "1")
    else:
        beside(made.world, n1={})
        named(made.world, "theirs", NIC, managed=False)
    holds(made.world, "low", 0)
    made.world.claim("high", request("gpu"), namespace="team")
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1", NIC: "1"}}}]
    spec = {"priority": 5, "containers": containers}
    made.world.pod("high", "high", gates=(GATE,), spec=spec, namespace="team")
    await made.passes(20)
    assert made.evicted == ["low"]
    ends(made.world, "low")
    await made.passes(3)
    assert made.world.places()["high"] == "n1"
