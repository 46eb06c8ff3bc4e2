"""Totals of what the cluster has, after namespaces, quotas and slices have changed."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import SLICES
from apportion.dra.quantity import NANO
from apportion.dra.slice import Slice
from apportion.quota.totals import Totals
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
    slices = {f"n{number}": one_device(f"n{number}") for number in range(100)}
    first = totals.refresh(slices, [ALL_GPUS], 1)
    next(first)
    [*totals.refresh(slices, [("nic", "", "", "")], 1)]
    assert len([*first]) == 1
    assert totals.of(("nic", "", "", "")) == 100 * NANO


def one_device(name: str) -> Slice:
    """Return a node's slice."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.apportion.dev", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return Slice.from_json({"metadata": {"name": name, "uid": name}, "spec": spec})
