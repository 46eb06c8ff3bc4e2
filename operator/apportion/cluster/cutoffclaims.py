"""CutOffClaims: claims that lost their devices after a pod that had reserved them was deleted by force, so that its containers may run on.

In: the last version of such a claim that had devices, and who had reserved it before (controller-manager takes the reservation of a pod that is
gone at once, the devices when nobody has reserved them). Out: what it had, by UID. Whether the containers run says the node's agent, by the UID of
the claim (`PreparedIndex`), also when the claim is gone from the API.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from apportion.cluster.changes import Changes
from apportion.cluster.endedallocations import together
from apportion.cluster.indexes.podindex import PodIndex
from apportion.cluster.indexes.preparedindex import PreparedIndex
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

PATIENCE: Final = 25.0
"""Seconds within which an agent has reported what is still prepared: it looks every ten seconds, twice is safe."""
_MOST = 10_000
"""Claims that no agent reports, and claims whose former pods may run: of each the newest are remembered."""


class CutOffClaims:
    """Claims in the last version with devices, by UID."""

    def __init__(
        self, pods: Mapping[str, Pod], index: PodIndex, prepared: PreparedIndex, changes: Changes
    ) -> None:
        """`index` knows which pods were deleted by force; `prepared`: what agents report, and a claim that is in it is not forgotten; `changes` are told of reports."""
        self._pods, self._index, self._prepared, self._changes = pods, index, prepared, changes
        self._claims: OrderedDict[str, Claim] = OrderedDict()
        self._by_name: dict[tuple[str, str], set[str]] = {}
        self._former: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Pods (UIDs) that may run and have reserved a claim (UID) no more, though it has kept the devices that they had."""

    def kept(self, old: Claim, new: Claim) -> None:
        """Take note of whose reservation was taken, if anybody's, in a claim that keeps the devices it has."""
        if old.allocation is None:
            self._former.pop(new.uid, None)
        elif old.reserved_for != new.reserved_for:
            left = {each.uid for each in old.reserved_for}.difference(each.uid for each in new.reserved_for)
            former = self._former.pop(new.uid, frozenset())
            if may_run := frozenset(filter(self._may_run, former | left)):
                self._former[new.uid] = may_run
                if len(self._former) > _MOST:
                    self._former.popitem(last=False)

    def former(self, claim: str) -> frozenset[str]:
        """Return the pods (UIDs) that had reserved a claim (UID) before those that have, and may run with the devices that it had last."""
        return self._former.get(claim, frozenset())

    def note(self, claim: Claim) -> None:
        """Take note of a claim that has lost its devices, in the last version that had them, if it is such a one; it may have lost others before."""
        if not any(
            map(self._index.cut_off, (*self.former(claim.uid), *(each.uid for each in claim.reserved_for)))
        ):
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

    def _may_run(self, pod: str) -> bool:
        found = self._pods.get(pod)
        return self._index.cut_off(pod) if found is None else found.node is not None and not found.finished

    def _drop(self, uid: str) -> None:
        found = self._claims.pop(uid)
        name = found.namespace, found.name
        self._by_name[name].discard(uid)
        if not self._by_name[name]:
            del self._by_name[name]
