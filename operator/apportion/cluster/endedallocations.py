"""EndedAllocations: allocations that ended while pods that had reserved them run on.

In: the last version of a claim that had devices, pods as they come and go. Out: which devices running pods still use.
A tenant may take the finalizers off a claim in use and delete it, or clear its status; the containers keep the devices
until the pod has ended. An operator that starts later learns of them by the agent's taint `apportion.dev/held`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod


class EndedAllocations:
    """Claims in the last version with devices, by UID, as long as a pod that had reserved them may run."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        """`pods` are the observed pods, by UID."""
        self._pods = pods
        self._claims: dict[str, Claim] = {}
        self._by_pod: dict[str, set[str]] = {}

    def note(self, claim: Claim) -> None:
        """Take note of a claim that has lost its devices, in the last version that had them; it may have lost others before.

        A claim is reserved for a gated pod, too (ADR 23): that one cannot run.
        """
        consumers = {each.uid for each in claim.reserved_for}
        if any(self._live(each) and not self._pods[each].gates for each in consumers):
            former = self._claims.get(claim.uid)
            self._claims[claim.uid] = claim if former is None else _together(former, claim)
            for pod in consumers:
                self._by_pod.setdefault(pod, set()).add(claim.uid)

    def forget_unbound(self, claim: str) -> None:
        """Forget what a claim (UID) lost, unless a pod is bound that had reserved it: the claim is given devices anew.

        kube-scheduler takes devices back from a pod that it cannot place; the pod is bound by those that it gets then.
        """
        found = self._claims.get(claim)
        if found is not None and next(self._running(found), None) is None:
            self._drop(claim)

    def _drop(self, claim: str) -> None:
        for each in {found.uid for found in self._claims.pop(claim).reserved_for}:
            self._by_pod[each].discard(claim)
            if not self._by_pod[each]:
                del self._by_pod[each]

    def of_pod(self, pod: str) -> list[str]:
        """Return the claims (UIDs) that a pod (UID) had reserved; those whose pods have all ended are forgotten with it."""
        found = list(self._by_pod.get(pod, ()))
        for uid in found:
            if not any(self._live(each.uid) for each in self._claims[uid].reserved_for):
                self._drop(uid)
        return found

    def get(self, claim: str) -> Claim | None:
        """Return the claim of this UID, if a pod runs with its devices now."""
        found = self._claims.get(claim)
        return found if found is not None and next(self._running(found), None) is not None else None

    def named(self, namespace: str, name: str) -> list[str]:
        """Return the claims (UIDs) of this name."""
        return [
            uid for uid, claim in self._claims.items() if (claim.namespace, claim.name) == (namespace, name)
        ]

    def __iter__(self) -> Iterator[tuple[Claim, Pod]]:
        """Yield every such claim with each pod that runs with its devices."""
        for claim in self._claims.values():
            for pod in self._running(claim):
                yield claim, pod

    def _live(self, pod: str) -> bool:
        found = self._pods.get(pod)
        return found is not None and not found.finished

    def _running(self, claim: Claim) -> Iterator[Pod]:
        for consumer in claim.reserved_for:
            if self._live(consumer.uid) and self._pods[consumer.uid].node is not None:
                yield self._pods[consumer.uid]


def _together(*versions: Claim) -> Claim:
    """Return a claim with the devices and the consumers of all its versions."""
    allocations = [each.allocation for each in versions if each.allocation is not None]
    results = {
        (found.device, found.share_id, found.admin_access): found
        for each in allocations
        for found in each.results
    }
    consumers = {found.uid: found for each in versions for found in each.reserved_for}
    allocation = Allocation(tuple(results.values()))
    return replace(versions[-1], allocation=allocation, reserved_for=tuple(consumers.values()))
