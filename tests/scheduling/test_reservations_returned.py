"""The reservation of a claim comes back whenever a write that takes it away, and was not answered, is carried out."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from apportion.cluster.kinds import CLAIMS, ResourceKind
from apportion.errors import Overtaken, Unanswered
from apportion.scheduling.writing.writer import Writer
from tests.observedcluster import Json
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import consumer, reserved_ahead, value


class Late:
    """An API server with one pod and its claim: the first write to the claim's status is not answered, and carried out right before the next write."""

    def __init__(self, pod: Json, claim: Json) -> None:
        self._pod, self.claim = pod, deepcopy(claim)
        self._held: list[Json] = []
        self._asked = 0

    async def get(self, kind: ResourceKind, _name: str, **_params: str) -> Json:
        return deepcopy(self.claim if kind == CLAIMS else self._pod)

    async def patch(self, _kind: ResourceKind, _name: str, body: Json, **_params: str) -> Json:
        self._asked += 1
        if self._asked == 1:
            self._held.append(body)
            raise Unanswered("PATCH: TimeoutError")
        while self._held:
            self._carry_out(self._held.pop())
        return deepcopy(self._carry_out(body))

    def _carry_out(self, body: Json) -> Json:
        metadata: dict[str, Any] = self.claim["metadata"]
        if (
            body["metadata"].get("resourceVersion", metadata["resourceVersion"])
            != metadata["resourceVersion"]
        ):
            raise Overtaken("the claim has changed")
        version = str(int(metadata["resourceVersion"]) + 1)
        metadata |= body["metadata"] | {"resourceVersion": version}
        self.claim["status"] |= body.get("status", {})
        return self.claim


async def test_a_write_that_is_carried_out_while_it_is_being_overtaken_takes_no_reservation() -> None:
    """The claim was read before it, and changed after it: the pod may be bound by then, and nobody would prepare its claim."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    server: Any = Late(pod, claim)
    writer = Writer(server, fence=lambda: None, now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(Unanswered):
        await writer.clear(world.claim_value(claim), value(world, pod))
    assert server.claim["status"]["reservedFor"] == [consumer(pod)]
    assert server.claim["status"]["allocation"] == claim["status"]["allocation"]
