"""Records: plans and what is carried out of them, as a DefragPolicy's status has them.

In: a plan with the pods that move, the time. Out: values of the API, and the devices in them as the allocator holds them.
"""

from collections.abc import Iterable
from datetime import datetime

from apportion.allocator.defrag.moves import Move, Plan
from apportion.api.defrag import (
    MOST_FREED,
    MOST_RESTARTS,
    Campaign,
    CampaignMove,
    DefragMove,
    DefragPlace,
    DefragPlan,
    DefragPolicy,
    LeftAlone,
)
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.scheduling.defrag.movables import Movables

_MOST_REASONS = 16
_STATEFUL = "StatefulSet"


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


def campaign_of(
    plan: Plan, found: Movables, now: datetime, closes: datetime, policy: DefragPolicy
) -> Campaign:
    """Return a plan for a policy as it is to be carried out; each of its moves is of one pod, which has a controller."""
    moves: list[CampaignMove] = []
    for each in plan.moves:
        [pod] = found.pods[each.movable.key]
        move, controller = _move(each, found), pod.controller
        if controller is not None:
            moves.append(
                CampaignMove(
                    pod=move.pod,
                    source=move.source,
                    target=move.target,
                    uid=pod.uid,
                    controller=controller.uid,
                    same_name=controller.kind == _STATEFUL,
                )
            )
    generation = policy.metadata.generation
    return Campaign(began=now, closes=closes, generation=generation, freed=freed_by(plan), moves=tuple(moves))


def freed_by(plan: Plan) -> tuple[str, ...]:
    """Return the devices that are free in the end: whole cards, or those that a demand would get."""
    served = plan.served.allocations if plan.served is not None else ()
    wanted = [result.device for each in served for result in each.results if not result.admin_access]
    return tuple(str(device) for device in (*plan.cards, *wanted)[:MOST_FREED])


def held_by(campaign: Campaign) -> tuple[DeviceResult, ...]:
    """Return what is kept from others as long as a plan is carried out: all places of its moves, and what it frees."""
    texts = [
        *campaign.freed,
        *(text for move in campaign.moves for place in (move.source, move.target) for text in place.devices),
    ]
    return tuple(DeviceResult("defrag", device) for device in devices_of(dict.fromkeys(texts)))


def devices_of(texts: Iterable[str]) -> tuple[DeviceId, ...]:
    """Return devices that are written as driver/pool/name; what is none is left out."""
    found: list[DeviceId] = []
    for text in texts:
        driver, _, rest = text.partition("/")
        pool, _, name = rest.rpartition("/")
        if driver and pool and name:
            found.append(DeviceId(driver, pool, name))
    return tuple(found)


def unfinished(policies: Iterable[DefragPolicy]) -> list[DefragPolicy]:
    """Return the policies whose plan is not carried out to its end, the one that began first at the front."""
    found = [
        (each.status.campaign.began.timestamp(), each.metadata.name, each)
        for each in policies
        if each.status.campaign is not None and each.status.campaign.ended is None
    ]
    return [each for _, _, each in sorted(found, key=lambda row: row[:2])]


def with_move(campaign: Campaign, move: CampaignMove, **more: object) -> Campaign:
    """Return what is carried out with something else said of a move."""
    moves = tuple(each.model_copy(update=more) if each.uid == move.uid else each for each in campaign.moves)
    return campaign.model_copy(update={"moves": moves})


def _move(move: Move, found: Movables) -> DefragMove:
    pods = ", ".join(pod.key for pod in found.pods[move.movable.key])
    return DefragMove(
        pod=pods[:320],
        source=_place(move.movable.node, move.movable.devices),
        target=_place(move.decision.node, move.devices),
    )


def _place(node: str, devices: Iterable[DeviceId]) -> DefragPlace:
    return DefragPlace(node=node, devices=tuple(str(each) for each in devices))
