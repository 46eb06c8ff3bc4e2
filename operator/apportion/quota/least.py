"""least(): what claims take of a quota's resources at least, and which of their alternatives the limits leave.

In: claims as they are written. Out: bounds that no choice of devices falls below. Whether a choice stays within the limits
is known only when the devices are chosen.
"""

from collections.abc import Sequence
from dataclasses import replace

from apportion.dra.claim import Claim, Request
from apportion.quota.use import Excess, QuotaUse


def least(claims: Sequence[Claim], use: QuotaUse, *, shares: bool) -> list[int]:
    """Return what the claims take of each resource at least, each slot with the alternative that takes least of it.

    `shares`: some devices give shares, so that a request may take less than a device.
    """
    total = [0] * len(use.resources)
    for claim in claims:
        for slot in claim.slots:
            rows = [_row(request, use, shares=shares) for request in slot.alternatives]
            total = [sum(pair) for pair in zip(total, map(min, *rows, rows[0]), strict=True)]
    return total


def possible(claims: tuple[Claim, ...], use: QuotaUse, *, shares: bool) -> tuple[Claim, ...] | Excess:
    """Return the claims without the alternatives that exceed a limit whatever devices they get, or the limit that all exceed.

    The same claims are returned where nothing is to be left out.
    """
    total = least(claims, use, shares=shares)
    excess = use.excess(total)
    if excess is not None:
        return excess
    found: list[Claim] = []
    for claim in claims:
        slots = []
        for slot in claim.slots:
            rows = [_row(request, use, shares=shares) for request in slot.alternatives]
            others = [
                amount - min(column) for amount, column in zip(total, zip(*rows, strict=True), strict=True)
            ]
            kept = []
            for request, row in zip(slot.alternatives, rows, strict=True):
                asked = [other + own if own else 0 for other, own in zip(others, row, strict=True)]
                over = use.excess(asked)
                if over is None:
                    kept.append(request)
                excess = excess or over
            if not kept and excess is not None:
                return excess
            slots.append(slot if len(kept) == len(rows) else replace(slot, alternatives=tuple(kept)))
        same = all(mine is theirs for mine, theirs in zip(slots, claim.slots, strict=True))
        found.append(claim if same else replace(claim, slots=tuple(slots)))
    same = all(mine is theirs for mine, theirs in zip(found, claims, strict=True))
    return claims if same else tuple(found)


def _row(request: Request, use: QuotaUse, *, shares: bool) -> list[int]:
    return [resource.least(request, shares=shares) for resource in use.resources]
