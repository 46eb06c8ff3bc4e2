"""What somebody deletes by mistake and makes again: the policy, a DeviceClass, the label by which a namespace has the gate.

In: a control plane, namespaces, random choices. Out: removals, each of which is made good after a while; after `undo` nothing is missing.
"""

import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from testbed.api import Api, Json
from testbed.soak import workload
from testbed.soak.aside import Aside
from testbed.soak.insistence import insist, make, remove

_GONE_SECONDS: Final = (1.0, 12.0)
_POLICIES: Final = "/apis/apportion.dev/v1alpha1/allocationpolicies"
_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
_CLASS: Final = "npu.apportion.dev"


class Removals:
    """`acts` are removals, by how often they come. Call `prepare` first."""

    def __init__(self, api: Api, aside: Aside, choose: random.Random, namespaces: Sequence[str]) -> None:
        """`namespaces`: those that may lose their label; they are looked up when one does."""
        self.acts: Mapping[Callable[[], Coroutine[Any, Any, str]], int] = {
            self._policy: 1, self._class: 1, self._label: 1
        }  # fmt: skip
        """Each returns in words what it did."""
        self._api, self._aside, self._choose = api, aside, choose
        self._namespaces = namespaces
        self._former: Json = {}
        """The DeviceClass as it was installed."""

    async def prepare(self) -> None:
        """Note what is to be made again."""
        found = await self._api.get(f"{_CLASSES}/{_CLASS}")
        kept = {name: found["metadata"].get(name, {}) for name in ("labels", "annotations")}
        self._former = {"metadata": {"name": _CLASS, **kept}, "spec": found["spec"]}

    async def undo(self) -> None:
        """Make all again that is missing."""
        await make(self._api, _POLICIES, workload.POLICY)
        await make(self._api, _CLASSES, self._former)
        for namespace in self._namespaces:
            await self._set_label(namespace, "true")

    async def _policy(self) -> str:
        await remove(self._api, f"{_POLICIES}/{workload.POLICY['metadata']['name']}")
        self._later(partial(make, self._api, _POLICIES, workload.POLICY))
        return "policy deleted"

    async def _class(self) -> str:
        await remove(self._api, f"{_CLASSES}/{_CLASS}")
        self._later(partial(make, self._api, _CLASSES, self._former))
        return "DeviceClass deleted"

    async def _label(self) -> str:
        namespace = self._choose.choice(self._namespaces)
        await self._set_label(namespace, None)
        self._later(partial(self._set_label, namespace, "true"))
        return "namespace lost its label"

    def _later(self, act: Callable[[], Awaitable[None]]) -> None:
        self._aside.later(self._choose.uniform(*_GONE_SECONDS), act)

    async def _set_label(self, namespace: str, value: str | None) -> None:
        body = {"metadata": {"labels": {"apportion.dev/managed": value}}}
        await insist(lambda: self._api.patch(f"/api/v1/namespaces/{namespace}", body))
