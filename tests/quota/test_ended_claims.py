"""What a pod uses of a claim that is gone stays charged to its quota until the pod has ended, and no longer."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from tests.quota.tenants import cluster, quota, wait


async def test_devices_of_a_claim_that_was_made_anew_under_its_pod_are_charged_until_the_pod_ends(
    silent: Client,
) -> None:
    """controller-manager makes it under another name, which the pod names from then on; the use stayed for ever."""
    world = cluster(8, "team")
    quota(world, "team", limit=1)
    pod = world.pod("runs", "used", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "runs", "uid": pod["metadata"]["uid"]}
    raw = world.allocate(world.claim("used"), "n1", "gpu-0", reservedFor=[consumer])
    cycle = world.cycle(silent)
    world.gone(CLAIMS, raw)
    world.claim("anew")
    pod["spec"]["resourceClaims"] = [{"name": "used", "resourceClaimName": "anew"}]
    world.see(PODS, pod)
    wait(world, "team", "next", at=1)
    cycle.once()
    assert "next" not in world.places()
    world.gone_claim("anew")
    world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
    world.gone(PODS, pod)
    cycle.once()
    assert world.places().keys() == {"next"}
