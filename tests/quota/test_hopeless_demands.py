"""Nobody stands back behind a demand that no node could serve: what others borrow is nothing that it could have."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.autoscaling import PATIENCE
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import Trial, holds, trial, waits


def borrowing(client: Client) -> Trial:
    """Return two GPUs of pods of low priority, and a pod that would borrow one of them from a quota that guarantees it to its own pods."""
    made = trial(client, 2)
    for team in ("a", "b"):
        namespace(made.world, team, team=team)
        quota(made.world, team, cohort="x", reclaims=True, guaranteed=1)
    for gpu in (0, 1):
        holds(made.world, f"low-{gpu}", gpu)
    waits(made.world, "borrows", 2, priority=5, team="b")
    return made


@pytest.mark.parametrize(
    ("expression", "gone"), [('device.driver == "mistyped"', ["low-0", "low-1"]), ("true", [])]
)
async def test_pods_go_for_who_borrows_what_nobody_else_could_have(
    unanswered: Client, expression: str, gone: list[str]
) -> None:
    """A pod of the other quota waits for a GPU that it could have; or for one of a model that no node has, for weeks."""
    made = borrowing(unanswered)
    made.world.claim("waits", request("gpu", expression=expression), namespace="a")
    made.world.pod("waits", "waits", gates=(GATE,), namespace="a")
    await made.passes(1)
    made.world.clock.now += PATIENCE
    await made.passes(4)
    assert sorted(made.evicted) == gone
