"""Plans beside pods that look at devices of others (admin access): they hold nothing, and nobody moves them."""

import copy

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.defrag import movables
from tests.cli.worlds import Cluster
from tests.clients import silent
from tests.defrag.planned import plan, policy, runs, scattered

__all__ = ["silent"]


def watches(cluster: Cluster, name: str, node: str, start: int) -> None:
    """Let a pod look at the partition of another one."""
    runs(cluster, name, node, "1g.10gb", start, owner=name)
    raw = copy.deepcopy(cluster.objects["ResourceClaim", "team", f"{name}-claim"])
    raw["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    for result in raw["status"]["allocation"]["devices"]["results"]:
        result["adminAccess"] = True
    cluster.see(CLAIMS, raw)


async def test_who_looks_at_a_device_is_not_moved_for_it(silent: Client) -> None:
    """Monitors were taken for those who have the devices: one was to be moved, and no card would have become free by that."""
    cluster = scattered()
    for node, start in (("n1", 3), ("n2", 0)):
        watches(cluster, f"monitor-{node}", node, start)
    policy(cluster)
    planned, found = plan(cluster, silent)
    assert planned.plan is not None
    moved = [pod.name for each in planned.plan.moves for pod in found.pods[each.movable.key]]
    assert moved in (["a"], ["b"])
    assert dict(found.left_alone) == {movables.LOOKING: 2}
