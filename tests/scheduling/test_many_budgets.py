"""The PodDisruptionBudgets of a namespace are read a few at once: a tenant may make thousands, each of a megabyte."""

import asyncio
from typing import cast

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import BUDGETS, ResourceKind
from apportion.dra.pod import Pod
from apportion.errors import Oversized
from apportion.scheduling.preemption.evictor import Evictor
from tests.observedcluster import Json

_BYTES = 2**20
"""Of each budget."""


class _Server:
    """Lets pods go, and has budgets, of which only the last one selects them."""

    def __init__(self, count: int) -> None:
        self.budgets = [self._budget(f"b{number}", {"app": "other"}) for number in range(count)]
        self.budgets.append(self._budget("keep", {"app": "a"}))
        self.most = 0
        """Bytes of the largest answer."""

    def _budget(self, name: str, labels: Json) -> Json:
        spec = {"selector": {"matchLabels": labels}}
        return {"metadata": {"name": name}, "spec": spec, "status": {"disruptionsAllowed": 1}}

    async def create(self, *_: object, **__: object) -> Json:
        return {}

    async def get(self, *_: object, **__: object) -> Json:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {}, "status": status}

    async def list(self, kind: ResourceKind, *, namespace: str, most: int = 0, **page: str) -> Json:
        assert (kind, namespace) == (BUDGETS, "team")
        first = int(page.get("continue", "0"))
        end = first + int(page.get("limit", len(self.budgets)))
        found = self.budgets[first:end]
        size = len(found) * _BYTES
        if most and size > most:
            raise Oversized("too much")
        self.most = max(self.most, size)
        return {"metadata": {"continue": str(end) if end < len(self.budgets) else ""}, "items": found}


@pytest.mark.parametrize("count", [0, 100])
async def test_budgets_are_read_a_few_at_once_and_others_run_in_between(count: int) -> None:
    """All were read in one piece, and gone through in another one."""
    server, turns = _Server(count), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    raw: Json = {"metadata": {"namespace": "team", "labels": {"app": "a"}}}
    pods = [Pod.from_json({"metadata": raw["metadata"] | {"name": name, "uid": name}}) for name in "ab"]
    refused = await Evictor(cast("Client", server), fence=lambda: None).refusal(pods)
    running.cancel()
    assert refused is not None
    assert "keep allows 1 of the 2 pods" in refused.reason
    assert turns >= count
    assert server.most <= 2 * _BYTES
