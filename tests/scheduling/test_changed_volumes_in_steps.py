"""Which of those that were refused name a volume that changed is looked at in steps."""

from apportion.api.contract import GATE
from apportion.cluster import kinds
from apportion.cluster.client import Client
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.queued import fleet

VOLUMES = 20


def volume_claim(world: ObservedCluster, name: str, namespace: str = "team") -> None:
    spec: Json = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    world.see(kinds.VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def refused(number: int) -> ObservedCluster:
    """Return so many pods that wait for two of one device, and name the same volumes."""
    world = fleet({"n0": ("h100", 1)})
    world.snapshot.volumes.know(complete=True)
    local = {"metadata": {"name": "local"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    world.see(kinds.STORAGE_CLASSES, local)
    names = [f"v{row}" for row in range(VOLUMES)]
    for name in names:
        volume_claim(world, name)
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    for row in range(number):
        world.claim(f"c{row}", request("gpu", count=2))
        world.pod(f"p{row}", f"c{row}", gates=(GATE,), spec={"volumes": volumes})
    return world


async def test_no_step_grows_with_those_whose_volumes_did_not_change(unanswered: Client) -> None:
    """Ten thousand that name 128 each were gone through in one step of a tenth of a second, with each change of any tenant's PersistentVolumeClaim."""
    longest = []
    for number in (100, 400):
        world = refused(number)
        cycle = world.cycle(unanswered)
        for _ in range(3):
            cycle.once()
        found = []
        for namespace in ("team", "others"):
            volume_claim(world, "another", namespace)
            found.append(longest_step(cycle))
        longest.append(found)
        assert cycle.decider.refusals.alike_of("uid-team-resourceclaims-c7") is not None
        volume_claim(world, "v3")
    assert all(many < 1.2 * few for few, many in zip(*longest, strict=True)), longest
