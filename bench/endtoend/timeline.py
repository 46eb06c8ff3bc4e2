"""When each pod was created, had its devices, and was bound, as a client sees it.

In: watch events of pods and claims, and the creator's own word. Out: seconds on one clock by pod name.
"""

import asyncio
from collections.abc import Callable

from apportion.cluster.kinds import CLAIMS, PODS
from testbed.api import Api, Json
from testbed.reflector import Reflector, Reflectors


class Timeline:
    """Follows the pods of one namespace; every time is that of the event's arrival here.

    Events of pods and of claims come by two watches, in any order: of a pod that is seen with a node, the claim was made and had its devices then
    at the latest.
    """

    def __init__(self, api: Api, namespace: str, pods: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods = pods
        self.created: dict[str, float] = {}
        """When the request that created the pod was sent."""
        self.claimed: dict[str, float] = {}
        """When its claim, which controller-manager makes from the template, was first seen, or it with a node."""
        self.allocated: dict[str, float] = {}
        """When its claim was first seen with an allocation, or it with a node."""
        self.bound: dict[str, float] = {}
        """When it was first seen with a node."""
        self.on_bound: Callable[[str], None] = lambda _: None
        self.all_bound = asyncio.Event()
        self.lists = Reflectors(
            Reflector(api, PODS.path(namespace=namespace), self._see_pod),
            Reflector(api, CLAIMS.path(namespace=namespace), self._see_claim),
        )

    def send(self, name: str) -> None:
        """Note that a pod's creation is being sent now."""
        self.created[name] = self._clock()

    def _see_pod(self, _uid: str, item: Json | None) -> None:
        if item is None or not item["spec"].get("nodeName"):
            return
        name = item["metadata"]["name"]
        if name not in self.bound:
            self.bound[name] = now = self._clock()
            for earlier in (self.claimed, self.allocated):
                earlier.setdefault(name, now)
            self.on_bound(name)
            if len(self.bound) == self._pods:
                self.all_bound.set()

    def _see_claim(self, _uid: str, item: Json | None) -> None:
        if item is None:
            return
        allocated = "allocation" in item.get("status", {})
        for owner in item["metadata"].get("ownerReferences", ()):
            self.claimed.setdefault(owner["name"], self._clock())
            if allocated:
                self.allocated.setdefault(owner["name"], self._clock())
