"""AppliedExamples: examples made in a cluster by kubectl, as their files tell users to, and deleted again.

In: examples, a namespace for those that have none of their own. Out: their objects, quotas and policies before others, and those with the label
`step=2` once the pods without it run; what they have left after their end.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from testbed.eventually import eventually
from testbed.example import LAST, Example, View
from testbed.installation import Installation

_PATIENCE_SECONDS = 60.0
"""Until the pods of a first step run."""
_RULES = {"AcceleratorQuota": "acceleratorquotas", "AllocationPolicy": "allocationpolicies"}
"""Kinds by which the operator serves others, with their resources; they have no namespace."""


@dataclass(frozen=True, slots=True)
class AppliedExamples:
    """Examples in one installation."""

    installation: Installation
    examples: Sequence[Example]
    namespace: str

    async def apply(self) -> None:
        """Apply all of them; those that come in steps first, before others have the devices that they name."""
        kubectl, others = self.installation.cluster.kubectl, self._others()
        await self._rule()
        for each in self.examples:
            if (first := each.pods_before_last()) is not None:
                where = () if each.namespaces else ("-n", self.namespace)
                await kubectl("apply", *where, *_files([each]), "-l", "!=".join(LAST))
                await eventually(
                    partial(self._waiting, first), lambda left: not left, within=_PATIENCE_SECONDS
                )
        if plain := self._plain():
            await kubectl("apply", "-n", self.namespace, *_files(plain))
        if others:
            await kubectl("apply", *_files(others))

    async def delete(self) -> None:
        """Begin to delete them; pods of an example may have been evicted for another one."""
        kubectl, options = self.installation.cluster.kubectl, ("--wait=false", "--ignore-not-found")
        if plain := self._plain():
            await kubectl("delete", "-n", self.namespace, *_files(plain), *options)
        if others := self._others():
            await kubectl("delete", *_files(others), *options)

    async def view(self) -> View:
        """Read the namespaces in which they are."""
        return await View.of(self.installation, self.namespace, *self._own_namespaces())

    async def left(self) -> list[str]:
        """Return what there still is of pods, claims, partitions with a holder, and namespaces of their own."""
        view, api = await self.view(), self.installation.cluster.api
        held = [each["metadata"]["name"] for each in view.partitions if each["spec"].get("holder")]
        own = [
            each
            for each in self._own_namespaces()
            if await api.find(f"/api/v1/namespaces/{each}") is not None
        ]
        return [*view.pods, *view.claims, *held, *own]

    async def _rule(self) -> None:
        """Apply quotas and policies, and wait until the operator knows them: a pod that it sees before one of them is served without it."""
        rules = [made for each in self.examples for made in each.objects if made["kind"] in _RULES]
        cluster = self.installation.cluster
        if rules:
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rules})
            await cluster.kubectl("apply", "-f", "-", stdin=text)
        for each in rules:
            path = f"/apis/{each['apiVersion']}/{_RULES[each['kind']]}/{each['metadata']['name']}"
            await eventually(
                partial(cluster.api.get, path),
                lambda found: found.get("status", {}).get("conditions"),
                within=_PATIENCE_SECONDS,
            )

    async def _waiting(self, names: Iterable[str]) -> list[str]:
        """Return those of some pods that do not run yet."""
        pods = (await self.view()).pods
        return [name for name in names if pods.get(name, {}).get("status", {}).get("phase") != "Running"]

    def _plain(self) -> list[Example]:
        return [each for each in self.examples if not each.namespaces]

    def _others(self) -> list[Example]:
        return [each for each in self.examples if each.namespaces]

    def _own_namespaces(self) -> list[str]:
        return [name for each in self.examples for name in each.namespaces]


def _files(examples: Iterable[Example]) -> list[str]:
    return [word for each in examples for word in ("-f", str(each.path))]
