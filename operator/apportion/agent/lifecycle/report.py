"""Report: the status of a Partition, from what the journal and the last look say.

In: a wish, its row, an outcome. Out: a fenced merge patch of `/status`, only when something differs.
"""

from typing import Any

from apportion.agent.lifecycle.desk import Desk
from apportion.agent.lifecycle.outcome import Outcome, Phase
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import PartitionRow
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import Missing

_LONGEST_MESSAGE = 1024


async def report(desk: Desk, wish: Wish, row: PartitionRow | None, outcome: Outcome) -> None:
    """Write the status if it differs. Raises Overtaken when the object changed; its event asks again."""
    wanted = status(wish, row, outcome, users=[user.uid for user in desk.users(wish.uid)], now=desk.now())
    patch = {key: value for key, value in wanted.items() if wish.status.get(key) != value}
    if not patch:
        return
    if "instance" in patch:
        # A merge patch keeps keys that are not named: name those that have to go.
        patch["instance"] = {**dict.fromkeys(wish.status.get("instance") or {}), **patch["instance"]}
    body = {"metadata": {"resourceVersion": wish.version}, "status": patch}
    try:
        answer = await desk.client.patch(PARTITIONS, wish.name, body, sub="status")
    except Missing:
        return
    desk.wishes.observe(PARTITIONS, "MODIFIED", answer)
    desk.at("status.written")


def status(
    wish: Wish, row: PartitionRow | None, outcome: Outcome, *, users: list[str], now: str
) -> dict[str, Any]:
    """Return the whole status that the object should have; None means absent."""
    made = row is not None and row.uuid != ""
    return {
        "phase": str(outcome.phase),
        "instance": dict(row.instance) if row is not None and row.instance else None,
        "uuid": row.uuid if row is not None and made else None,
        "preparedBy": sorted(set(users)) or None,
        "observedGeneration": wish.generation,
        "conditions": _conditions(wish, outcome, now),
    }


def _conditions(wish: Wish, outcome: Outcome, now: str) -> list[dict[str, Any]]:
    rows = [_condition(wish, "Ready", outcome, now, holds=outcome.ready)]
    failed = outcome.phase is Phase.FAILED
    if failed or any(row.get("type") == "Failed" for row in wish.status.get("conditions") or ()):
        rows.append(_condition(wish, "Failed", outcome, now, holds=failed))
    return rows


def _condition(wish: Wish, kind: str, outcome: Outcome, now: str, *, holds: bool) -> dict[str, Any]:
    value = "True" if holds else "False"
    kept: list[dict[str, Any]] = wish.status.get("conditions") or []
    before = next((row for row in kept if row.get("type") == kind), {})
    same = before.get("status") == value
    return {
        "type": kind,
        "status": value,
        "reason": outcome.reason,
        "message": outcome.message[:_LONGEST_MESSAGE],
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
        "observedGeneration": wish.generation,
    }
