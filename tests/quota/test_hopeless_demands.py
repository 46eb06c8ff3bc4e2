"""Nobody stands back behind a demand that no node could serve: what others borrow is nothing that it could have."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from tests.observedcluster import request
from tests.quota.tenants import GPUS, namespace, quota
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


NOWHERE = 'device.driver == "mistyped"'
BROKEN = 'device.attributes["x"].y.z('


@pytest.mark.parametrize(
    ("how", "expression"),
    [
        *((how, NOWHERE) for how in ("ungated", "Immediate", "WhenFull", "Never")),
        *((how, BROKEN) for how in ("WhenNothingFits", "Immediate")),
    ],
)
async def test_nobody_stands_back_behind_it_however_it_waits(
    how: str, expression: str, unanswered: Client
) -> None:
    """It costs its owner nothing to let it wait for ever: only what autoscalers are shown was known to be hopeless."""
    made = borrowing(unanswered)
    if how.startswith("W") or how == "Never":
        preemption = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
        made.world.policy(preemption=preemption, queue={"autoscale": how, "mostReserved": 0})
    more: dict[str, Any] = {"annotations": {GATE: how}} if how == "Immediate" else {}
    made.world.claim("waits", request("gpu", expression=expression), namespace="a", **more)
    if how != "Immediate":
        made.world.pod("waits", "waits", gates=() if how == "ungated" else (GATE,), namespace="a")
    await made.passes(1)
    made.world.clock.now += PATIENCE
    await made.passes(4)
    assert sorted(made.evicted) == ["low-0", "low-1"]


async def test_nobody_stands_back_behind_a_pod_that_its_own_limit_leaves_no_model_that_there_is(
    unanswered: Client,
) -> None:
    """It is within what is guaranteed to it of GPUs, and its limit leaves it none of the only model."""
    made = trial(unanswered, 2)
    for team in ("a", "b"):
        namespace(made.world, team, team=team)
        no_model = [GPUS | {"guaranteed": 1}, {"name": "h100s", "model": "h100", "limit": 0}]
        quota(made.world, team, *(no_model if team == "a" else ()), cohort="x", reclaims=True, guaranteed=1)
    made.world.claim("waits", request("gpu", expression="true"), namespace="a")
    made.world.pod("waits", "waits", gates=(GATE,), namespace="a")
    await made.passes(1)
    assert [*made.cycle.quotas.over] == ["uid-a-resourceclaims-waits"]
    for gpu in (0, 1):
        holds(made.world, f"low-{gpu}", gpu)
    waits(made.world, "borrows", 2, priority=5, team="b")
    await made.passes(1)
    made.world.clock.now += PATIENCE
    await made.passes(4)
    assert sorted(made.evicted) == ["low-0", "low-1"]
