"""Pods that ask for an extended resource behind which there is a DeviceClass, beside their claim, move as others do."""

import copy

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.clients import silent
from tests.defrag.planned import plan, policy, scattered
from tests.scheduling.test_extended_resources import named
from tests.scheduling.test_other_claims import beside

__all__ = ["silent"]
NIC = "example.com/nic"


async def test_a_pod_that_asks_for_an_extended_resource_beside_its_claim_may_move(silent: Client) -> None:
    """kube-scheduler finds a device for it on the other node, too."""
    cluster = scattered()
    ours = 'device.driver == "gpu.apportion.dev" && device.attributes["gpu.apportion.dev"].type == '
    for kind in ("gpu", "mig"):
        cluster.device_class(kind, f'{ours}"{kind}"')
    beside(cluster, n1={}, n2={})
    named(cluster, "theirs", NIC, managed=False)
    policy(cluster)
    for name in ("a", "b"):
        raw = copy.deepcopy(cluster.objects["Pod", "team", name])
        raw["spec"]["containers"][0]["resources"]["requests"][NIC] = "1"
        cluster.see(PODS, raw)
    found, _ = plan(cluster, silent)
    assert found.verdict == "Planned", found
