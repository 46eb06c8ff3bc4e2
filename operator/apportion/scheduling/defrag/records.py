"""Records: plans as a DefragPolicy's status has them.

In: a plan with the pods that move, the time. Out: values of the API.
"""

from collections.abc import Iterable
from datetime import datetime

from apportion.allocator.defrag.moves import Move, Plan
from apportion.api.defrag import MOST_DEVICES, MOST_RESTARTS, DefragMove, DefragPlace, DefragPlan, LeftAlone
from apportion.dra.device import DeviceId
from apportion.scheduling.defrag.movables import Movables

_MOST_REASONS = 16


def plan_record(plan: Plan | None, found: Movables, now: datetime) -> DefragPlan:
    """Return a plan as the status shows it."""
    left_alone = tuple(
        LeftAlone(reason=reason, claims=count)
        for reason, count in found.left_alone.most_common(_MOST_REASONS)
    )
    if plan is None:
        return DefragPlan(time=now, left_alone=left_alone)
    return DefragPlan(
        time=now,
        moves=tuple(_move(each, found) for each in plan.moves[:MOST_RESTARTS]),
        restarts=plan.pods,
        freed=freed_by(plan),
        proven=plan.proven,
        left_alone=left_alone,
    )


def freed_by(plan: Plan) -> tuple[str, ...]:
    """Return the devices that are free in the end: whole cards, or those that a demand would get."""
    served = plan.served.allocations if plan.served is not None else ()
    wanted = [result.device for each in served for result in each.results]
    return tuple(str(device) for device in (*plan.cards, *wanted)[:MOST_DEVICES])


def _move(move: Move, found: Movables) -> DefragMove:
    pods = ", ".join(pod.key for pod in found.pods[move.movable.key])
    return DefragMove(
        pod=pods[:320],
        source=_place(move.movable.node, move.movable.devices),
        target=_place(move.decision.node, move.devices),
    )


def _place(node: str, devices: Iterable[DeviceId]) -> DefragPlace:
    return DefragPlace(node=node, devices=tuple(str(each) for each in devices))
