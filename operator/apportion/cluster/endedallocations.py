"""EndedAllocations: allocations that ended while pods that had reserved them run on.

In: the last version of a claim that had devices, pods as they come and go. Out: which devices running pods still use.
A tenant may take the finalizers off a claim in use and delete it, or clear its status; the containers keep the devices
until the pod has ended. An operator that starts later learns of them by the agent's taint `apportion.dev/held`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

_Key = TypeVar("_Key")


class EndedAllocations:
    """Claims in the last version with devices, by UID, as long as a pod that had reserved them may run."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        """`pods` are the observed pods, by UID."""
        self._pods = pods
        self._claims: dict[str, Claim] = {}
        self._by_pod: dict[str, set[str]] = {}
        self._by_name: dict[tuple[str, str], set[str]] = {}

    def note(self, claim: Claim) -> None:
        """Take note of a claim that has lost its devices, in the last version that had them; it may have lost others before.

        A pod that is shown behind its gate may run by now: the watch of pods may be later than that of claims.
        """
        consumers = {each.uid for each in claim.reserved_for}
        if any(map(self._live, consumers)):
            former = self._claims.get(claim.uid)
            self._claims[claim.uid] = claim if former is None else together(former, claim)
            self._by_name.setdefault((claim.namespace, claim.name), set()).add(claim.uid)
            for pod in consumers:
                self._by_pod.setdefault(pod, set()).add(claim.uid)

    def replace(self, claim: Claim, allocation: Allocation) -> list[str]:
        """Take note of what a claim was given devices anew; returns those of its name (UIDs) of which nothing has to be held any more.

        kube-scheduler takes devices back from a pod that it cannot place; the pod is bound by those that it gets then. The claim
        may have been deleted and made anew meanwhile, with another UID. Where it has all that was lost, and pods that run have reserved
        it, they run with its devices.
        """
        replaced: list[str] = []
        reserved = {each.uid for each in claim.reserved_for}
        for uid in self.named(claim.namespace, claim.name):
            found = self._claims[uid]
            has_all = found.allocation is None or allocation.keeps(found.allocation)
            if has_all and reserved.issuperset(pod.uid for pod in self._running(found)):
                self._drop(uid)
                replaced.append(uid)
            else:
                self._keep(uid, {pod.uid for pod in self._running(found)})
        return replaced

    def _keep(self, claim: str, pods: Collection[str]) -> None:
        """Count only these pods (UIDs) among those that may run with what a claim lost; without any the claim is forgotten."""
        found = self._claims[claim]
        for each in found.reserved_for:
            if each.uid not in pods:
                _discard(self._by_pod, each.uid, claim)
        left = tuple(each for each in found.reserved_for if each.uid in pods)
        self._claims[claim] = replace(found, reserved_for=left)
        if not any(map(self._live, pods)):
            self._drop(claim)

    def _drop(self, claim: str) -> None:
        found = self._claims.pop(claim)
        _discard(self._by_name, (found.namespace, found.name), claim)
        for each in found.reserved_for:
            _discard(self._by_pod, each.uid, claim)

    def of_pod(self, pod: str) -> list[Claim]:
        """Return the claims that a pod (UID) had reserved, after it has changed.

        Those that it names no more, and whose devices it can therefore not be bound by, are forgotten with it; so are those whose pods have all ended.
        """
        found = [self._claims[uid] for uid in self._by_pod.get(pod, ())]
        now = self._pods.get(pod)
        named = {each.claim for each in now.claims} if now is not None else set()
        for claim in found:
            if now is None or (now.node is None and claim.name not in named and not now.unread_claims):
                self._keep(claim.uid, {each.uid for each in claim.reserved_for} - {pod})
            elif not any(self._live(each.uid) for each in claim.reserved_for):
                self._drop(claim.uid)
        return found

    def get(self, claim: str) -> Claim | None:
        """Return the claim of this UID, if a pod runs with its devices now."""
        found = self._claims.get(claim)
        return found if found is not None and next(self._running(found), None) is not None else None

    def named(self, namespace: str, name: str) -> list[str]:
        """Return the claims (UIDs) of this name."""
        return [*self._by_name.get((namespace, name), ())]

    def __iter__(self) -> Iterator[tuple[Claim, Pod]]:
        """Yield every such claim with each pod that runs with its devices."""
        for claim in self._claims.values():
            for pod in self._running(claim):
                yield claim, pod

    def _live(self, pod: str) -> bool:
        found = self._pods.get(pod)
        return found is not None and not found.finished

    def _running(self, claim: Claim) -> Iterator[Pod]:
        """Yield the pods that run with a claim's devices; one that is bound to another node than that of the devices cannot."""
        where = claim.allocation.node if claim.allocation is not None else None
        for consumer in claim.reserved_for:
            pod = self._pods.get(consumer.uid)
            if pod is not None and not pod.finished and pod.node is not None and where in (None, pod.node):
                yield pod


def together(*versions: Claim) -> Claim:
    """Return a claim with the devices and the consumers of all its versions, of which the last one says the rest."""
    allocations = [each.allocation for each in versions if each.allocation is not None]
    results = {
        (found.device, found.share_id, found.admin_access): found
        for each in allocations
        for found in each.results
    }
    consumers = {found.uid: found for each in versions for found in each.reserved_for}
    allocation = Allocation(tuple(results.values()))
    return replace(versions[-1], allocation=allocation, reserved_for=tuple(consumers.values()))


def _discard(index: dict[_Key, set[str]], key: _Key, claim: str) -> None:
    """Take a claim out of an index; what is empty then is not kept."""
    found = index.get(key, set())
    found.discard(claim)
    if not found:
        index.pop(key, None)
