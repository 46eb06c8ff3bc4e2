"""What is held beside allocations, as DeviceHolds show it.

In: a reservation, a preemption, or moves that are carried out, as the operator remembers them. Out: the specs, by name. Of moves no pod is named: who may read
DeviceHolds need not know the pods of all tenants.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from apportion.api.defrag import Campaign, DefragPolicy
from apportion.api.hold import MOST_LISTED, DeviceHoldSpec, HeldDevice, HeldFor, HoldPurpose, hold_name
from apportion.cluster.managedclasses import ManagedClasses
from apportion.dra.allocation import DeviceResult
from apportion.scheduling.backfill.heads import members_of
from apportion.scheduling.backfill.reservation import Reservation
from apportion.scheduling.defrag.records import held_by
from apportion.scheduling.demands.waiting import WaitingDemand, priority_of
from apportion.scheduling.preemption.evictions import Preemption

Named = tuple[str, DeviceHoldSpec]


def of_reservations(reservations: Iterable[Reservation], managed: ManagedClasses) -> Iterator[Named]:
    """Yield what is reserved for the first of the queue."""
    for each in reservations:
        starts = each.plan.start
        yield (
            each.name,
            DeviceHoldSpec(
                purpose=HoldPurpose.RESERVATION,
                starts=datetime.fromtimestamp(int(starts), UTC) if starts is not None else None,
                **_of_demands(members_of(each.head), managed),
                **_devices(each.plan.results),
            ),
        )


def of_preemptions(preemptions: Iterable[Preemption], managed: ManagedClasses) -> Iterator[Named]:
    """Yield what is kept for those for which pods are evicted."""
    for each in preemptions:
        yield (
            each.reservation.name,
            DeviceHoldSpec(
                purpose=HoldPurpose.PREEMPTION,
                **_of_demands(each.preemptor.members, managed),
                **_devices(each.reservation.results),
            ),
        )


def of_moves(carried_out: tuple[DefragPolicy, Campaign] | None) -> Iterator[Named]:
    """Yield the places of moves that are carried out, if there are any."""
    if carried_out is None:
        return
    policy, campaign = carried_out
    metadata = policy.metadata
    yield (
        hold_name(HoldPurpose.MOVE),
        DeviceHoldSpec(
            purpose=HoldPurpose.MOVE,
            held_for=(HeldFor(kind="DefragPolicy", name=metadata.name, uid=metadata.uid),),
            controllers=tuple(dict.fromkeys(move.controller for move in campaign.moves)),
            **_devices(held_by(campaign)),
        ),
    )


def _of_demands(demands: Iterable[WaitingDemand], managed: ManagedClasses) -> dict[str, Any]:
    found = tuple(demands)
    claims = [
        HeldFor(kind="ResourceClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid)
        for demand in found
        for claim in demand.claims
    ]
    return {"held_for": tuple(claims[:MOST_LISTED]), "priority": priority_of(found[0], managed)}


def _devices(results: Iterable[DeviceResult]) -> dict[str, Any]:
    held = [each for each in results if not each.admin_access]
    rows = [
        HeldDevice(
            driver=each.device.driver,
            pool=each.device.pool,
            device=each.device.name,
            share_id=each.share_id,
            consumed_capacity={name: str(amount) for name, amount in each.consumed.items()},
        )
        for each in held[:MOST_LISTED]
    ]
    return {"count": len(held), "devices": tuple(rows)}
