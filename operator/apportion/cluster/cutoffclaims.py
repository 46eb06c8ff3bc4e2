"""CutOffClaims: claims that lost their devices after a pod that had reserved them was deleted by force, so that its containers may run on.

In: the last version of such a claim that had devices. Out: what it had, by UID. Whether the containers run says the node's agent, by the UID of
the claim (`PreparedIndex`), also when the claim is gone from the API.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from apportion.cluster.changes import Changes
from apportion.cluster.endedallocations import together
from apportion.cluster.indexes.podindex import PodIndex
from apportion.cluster.indexes.preparedindex import PreparedIndex
from apportion.dra.claim import Claim

_MOST = 10_000
"""Claims that no agent reports, of which the newest are remembered."""


class CutOffClaims:
    """Claims in the last version with devices, by UID."""

    def __init__(self, pods: PodIndex, prepared: PreparedIndex, changes: Changes) -> None:
        """`pods` knows which were deleted by force; `prepared`: what agents report, and a claim that is in it is not forgotten; `changes` are told of reports."""
        self._pods, self._prepared, self._changes = pods, prepared, changes
        self._claims: OrderedDict[str, Claim] = OrderedDict()
        self._by_name: dict[tuple[str, str], set[str]] = {}

    def note(self, claim: Claim) -> None:
        """Take note of a claim that has lost its devices, in the last version that had them, if it is such a one; it may have lost others before."""
        if not any(self._pods.cut_off(each.uid) for each in claim.reserved_for):
            return
        former = self._claims.get(claim.uid)
        self._claims[claim.uid] = claim if former is None else together(former, claim)
        self._by_name.setdefault((claim.namespace, claim.name), set()).add(claim.uid)
        while len(self._claims) > _MOST:
            unreported = (uid for uid in self._claims if not self._prepared.nodes(uid))
            if (oldest := next(unreported, None)) is None:
                break
            self._drop(oldest)

    def reported(self, claims: Iterable[str]) -> None:
        """Tell those who follow changes that agents report something else of these claims (UIDs)."""
        for uid in claims:
            if uid in self._claims:
                self._changes.claim(self._claims[uid], ())

    def get(self, claim: str) -> Claim | None:
        """Return the claim of this UID."""
        return self._claims.get(claim)

    def named(self, namespace: str, name: str) -> list[str]:
        """Return the claims (UIDs) of this name."""
        return [*self._by_name.get((namespace, name), ())]

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims.values())

    def _drop(self, uid: str) -> None:
        found = self._claims.pop(uid)
        name = found.namespace, found.name
        self._by_name[name].discard(uid)
        if not self._by_name[name]:
            del self._by_name[name]
