"""The status of a Partition, from its journal row and the outcome of the last round.

In: a Partition, its row, an outcome. Out: a merge patch of `/status` that names the version it was made from; none when nothing differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import PartitionRow
from apportion.api.partition import Partition, Phase
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import Missing, Overtaken

_LONGEST_MESSAGE = 1024
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """How one attempt to bring a partition forward ended."""

    phase: Phase
    reason: str
    """CamelCase, for the condition."""
    message: str = ""
    retry: bool = False
    """Whether to try again without a new event."""

    @property
    def ready(self) -> bool:
        """Whether the partition exists and can be used."""
        return self.phase in {Phase.READY, Phase.IDLE}


def as_asked(context: AgentContext, partition: Partition) -> Partition:
    """Return the newest version of an object for which something was done.

    Raises Overtaken when another thing is asked for by now: what was found out would pass for an answer to that.
    """
    now = context.desired.get(partition.metadata.uid) or partition
    if now.spec != partition.spec:
        raise Overtaken(f"Partition {partition.metadata.name} asks for something else by now")
    return now


async def report(
    context: AgentContext, partition: Partition, row: PartitionRow | None, outcome: PartitionOutcome
) -> None:
    """Write the status if it differs. Raises Overtaken when the object changed; the worker runs another round then."""
    users = [user.uid for user in context.users(partition.metadata.uid)]
    wanted = status(partition, row, outcome, users=users, now=context.now())
    patch = status_patch(partition, wanted)
    if not patch:
        return
    body = {"metadata": {"resourceVersion": partition.metadata.resource_version}, "status": patch}
    try:
        answer = await context.client.patch(PARTITIONS, partition.metadata.name, body, sub="status")
    except Missing:
        return
    context.desired.observe(PARTITIONS, "MODIFIED", answer)
    context.at("status.written")
    unheld = partition.spec.holder is None or partition.status.phase is Phase.IDLE
    if unheld and (users or "preparedBy" in patch):
        # Its place is in the slices as long as somebody looks at it whom no allocation counts.
        context.slices_changed()


def status_patch(partition: Partition, wanted: Json) -> Json:
    """Return the merge patch that makes the status as wanted, {} when it is."""
    known = partition.status.to_json()
    # The model has empty containers where the object has nothing.
    patch = {key: value for key, value in wanted.items() if (known.get(key) or None) != value}
    if "instance" in patch and known["instance"]:
        # A merge patch keeps keys that are not named: name those that have to go.
        patch["instance"] = {**dict.fromkeys(known["instance"]), **(patch["instance"] or {})}
    return patch


def status(
    partition: Partition,
    row: PartitionRow | None,
    outcome: PartitionOutcome,
    *,
    users: Sequence[str],
    now: str,
) -> Json:
    """Return the whole status that the object should have; None means absent."""
    before: list[Json] = partition.status.to_json()["conditions"]
    values = {"Ready": outcome.ready}
    failed = outcome.phase is Phase.FAILED
    if failed or any(row["type"] == "Failed" for row in before):
        values["Failed"] = failed
    return {
        "phase": str(outcome.phase),
        "instance": dict(row.instance) if row is not None and row.instance else None,
        "uuid": row.uuid if row is not None and row.uuid else None,
        "preparedBy": sorted(set(users)) or None,
        "observedGeneration": partition.metadata.generation,
        "conditions": [
            condition(kind, outcome.reason, outcome.message, now, holds=holds, before=before)
            | {"observedGeneration": partition.metadata.generation}
            for kind, holds in values.items()
        ],
    }


def condition(kind: str, reason: str, message: str, now: str, *, holds: bool, before: Sequence[Json]) -> Json:
    """Return a condition; `before` are the object's conditions: the transition time stays while the status does."""
    value = "True" if holds else "False"
    known = next((row for row in before if row["type"] == kind and row["status"] == value), None)
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "lastTransitionTime": known["lastTransitionTime"] if known is not None else now,
    }
