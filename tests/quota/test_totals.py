"""Totals of what the cluster has, after namespaces, quotas and slices have changed."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import SLICES
from apportion.dra.device import Device
from apportion.dra.quantity import NANO
from apportion.dra.slice import Slice
from apportion.quota.totals import AT_ONCE, Totals
from tests.quota.tenants import cluster, namespace, quota

ALL_GPUS = ("gpu", "", "", "")


async def test_a_slice_that_changes_after_a_namespace_came_counts_as_before(unanswered: Client) -> None:
    """The namespace is of nobody's quota, and quotas count what they did; the slice is published anew, with a taint, say."""
    world = cluster(8, "a")
    quota(world, "a", cohort="x")
    cycle = world.cycle(unanswered)

    def gpus() -> int:
        cycle.once()
        [*cycle.quotas.total()]
        return cycle.quotas.totals.of(ALL_GPUS) // NANO

    assert gpus() == 8
    namespace(world, "somebody")
    [raw] = [each for (kind, *_), each in world.seen.items() if kind == SLICES]
    world.see(SLICES, {**raw, "metadata": {**raw["metadata"], "generation": 2}})
    assert gpus() == 8


def test_a_refresh_goes_on_for_what_is_counted_by_then() -> None:
    """Others run in its midst, and a quota that comes then begins another one."""
    totals = Totals(lambda _device, _device_class: True)
    slices = {f"n{number}": one_device(f"n{number}") for number in range(AT_ONCE)}
    first = totals.refresh(slices, [ALL_GPUS], 1)
    next(first)
    [*totals.refresh(slices, [("nic", "", "", "")], 1)]
    assert len([*first]) == 1
    assert totals.of(("nic", "", "", "")) == AT_ONCE * NANO


def test_devices_are_looked_at_in_steps_however_many_a_slice_has_and_quotas_count() -> None:
    """64 slices were read in one piece: a tenth of a second for 32 cards in partitions where quotas count ten kinds."""
    looked = list[str]()

    def is_of_class(device: Device, _device_class: str) -> bool:
        looked.append(device.name)
        return True

    totals = Totals(is_of_class)
    slices = {f"n{number}": one_device(f"n{number}") for number in range(AT_ONCE)}
    found = []
    for _ in totals.refresh(slices, [("gpu", str(number), "", "") for number in range(16)], 1):
        found.append(len(looked))
        looked.clear()
    assert max(*found, len(looked)) <= AT_ONCE + 16


def one_device(name: str) -> Slice:
    """Return a node's slice."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.apportion.dev", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return Slice.from_json({"metadata": {"name": name, "uid": name}, "spec": spec})
