"""WaitingAmounts: what the demands and groups that wait in a namespace take of its quota, as far as is known.

In: demands and groups as they come and go, the use of their quota, what is learnt of requests. Out: those that stay within the guarantee. Each is looked at
when it comes, or something is learnt of its requests; with the guarantee is compared each amount, however many take it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from apportion.dra.claim import Claim
from apportion.quota.resource import Resource
from apportion.quota.use import QuotaUse
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.charging import Charging

Asked: TypeAlias = tuple[int, ...]
"""What is asked for at once: the identity of what each claim requests, which equal ones share."""
Demands: TypeAlias = tuple[WaitingDemand, ...]
"""What is decided at once: a demand, or those of a group that are enough."""
_Amounts: TypeAlias = tuple[int, ...]


class WaitingAmounts:
    """Those of one namespace."""

    def __init__(self, charging: Charging) -> None:
        self._charging = charging
        self.waiting: dict[Asked, dict[str, Demands]] = {}
        """Those that wait, by what they ask for, by key."""
        self._by_request: dict[int, dict[Asked, None]] = {}
        """By identity of what a claim requests, what is asked for with it."""
        self._amounts: dict[Asked, _Amounts] = {}
        """How much they take."""
        self._alike: dict[_Amounts, dict[Asked, None]] = {}
        """What takes as much."""
        self._todo: dict[Asked, None] = {}
        """Of which it is not known."""
        self._by: tuple[QuotaUse, bool] | None = None
        """The use, and whether some devices give shares, by which the amounts were found."""
        self._learnt = 0
        """How far it was read what was learnt."""
        self._within: list[tuple[Sequence[Resource], Mapping[Asked, None]]] | None = None
        """The resources in which those may count that stay within the guarantee; None: to be found out anew."""
        self._version = -1
        """Of the use by which that was found."""

    def put(self, key: str, demands: Demands) -> Asked:
        """Add what is decided at once, by its key; returns what it asks for."""
        asked = tuple([id(claim.slots) for demand in demands for claim in demand.claims])
        own = self.waiting.get(asked)
        if own is None:
            own = self.waiting[asked] = {}
            self._todo[asked] = None
            for request in asked:
                self._by_request.setdefault(request, {})[asked] = None
        own[key] = demands
        return asked

    def remove(self, key: str, asked: Asked) -> None:
        """Remove what has this key."""
        own = self.waiting[asked]
        del own[key]
        if own:
            return
        del self.waiting[asked]
        for request in frozenset(asked):
            others = self._by_request[request]
            del others[asked]
            if not others:
                del self._by_request[request]
        self._forget(asked)
        self._todo.pop(asked, None)

    def _forget(self, asked: Asked) -> None:
        """Forget how much somebody takes."""
        amounts = self._amounts.pop(asked, None)
        if amounts is not None:
            alike = self._alike[amounts]
            del alike[asked]
            if not alike:
                del self._alike[amounts]
                self._within = None

    def steps(self, use: QuotaUse, pace: Pace, *, shares: bool) -> Iterator[None]:
        """Find out how much they take of a quota; yields where others may run. `shares`: some devices give shares."""
        if self._by != (use, shares):
            self._by, self._within = (use, shares), None
            self._amounts, self._alike, self._todo = {}, {}, dict.fromkeys(self.waiting)
        self._learnt, learnt = self._charging.learnt.since(self._learnt)
        for request in self._by_request if learnt is None else learnt:
            self._todo.update(self._by_request.get(request, {}))
        for asked in tuple(self._todo):
            if pace.rests(len(asked)):
                yield
            alike = self.waiting.get(asked)
            claims = (
                [claim for demand in next(iter(alike.values())) for claim in demand.claims] if alike else []
            )
            yield from use.bounds.steps(claims, shares=shares)
            if asked in self.waiting and self._by == (use, shares):
                self._forget(asked)
                self._look(asked, claims, use, shares=shares)

    def _look(self, asked: Asked, claims: Sequence[Claim], use: QuotaUse, *, shares: bool) -> None:
        amounts = tuple(self._charging.expected(claims, use, shares=shares))
        self._amounts[asked] = amounts
        if amounts not in self._alike:
            self._alike[amounts] = {}
            self._within = None
        self._alike[amounts][asked] = None
        self._todo.pop(asked, None)

    def within_guarantee(
        self, use: QuotaUse, borrowed: Sequence[Resource], *, shares: bool
    ) -> Iterator[Mapping[str, Demands]]:
        """Yield those (by key) that ask alike, stay within the guarantee of their quota, and may take what counts in one of these resources of another one."""
        for _ in self.steps(use, Pace(), shares=shares):
            pass
        if self._within is None or self._version != use.version:
            rows = ((use.takeable(amounts), alike) for amounts, alike in self._alike.items())
            self._within, self._version = [row for row in rows if row[0]], use.version
        for resources, alike in self._within:
            if any(mine.overlaps(other) for mine in resources for other in borrowed):
                for asked in alike:
                    yield self.waiting[asked]
