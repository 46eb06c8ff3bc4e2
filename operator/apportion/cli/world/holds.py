"""Holds: what the operator holds beside allocations, as its DeviceHolds show it.

In: DeviceHolds. Out: the devices held in the allocator's state, under the keys of the operator, so that each demand finds them taken; and the state
without those that a demand may use, by the operator's rules (ADR 27, 28, 39).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from apportion.allocator.state import State
from apportion.api.hold import DeviceHold, DeviceHoldSpec, HoldPurpose, hold_key
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.reading import Json
from apportion.errors import BrokenInput


class Holds:
    """The DeviceHolds of a cluster."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.found: dict[str, DeviceHold] = {}
        """By name."""
        self.broken: dict[str, BrokenInput] = {}
        """What is wrong with those that cannot be read, by name: they hold nothing."""

    def put(self, raw: Json) -> None:
        """Add or replace an object."""
        name = str(raw["metadata"]["name"])
        self.drop(name)
        try:
            hold = DeviceHold.from_json(raw)
            rows = _rows(hold)
        except BrokenInput as error:
            self.broken[name] = error
            return
        self.found[name] = hold
        self._state.hold(hold_key(name), rows)

    def drop(self, name: str) -> None:
        """Remove an object; its devices are free again."""
        self.broken.pop(name, None)
        hold = self.found.pop(name, None)
        if hold is not None:
            self._state.release(hold_key(name))

    def devices(self) -> dict[DeviceId, list[DeviceHold]]:
        """Return the devices that are held, each with its holds."""
        found: dict[DeviceId, list[DeviceHold]] = {}
        for hold in self.found.values():
            for each in hold.spec.devices:
                found.setdefault(DeviceId(each.driver, each.pool, each.device), []).append(hold)
        return found

    @contextmanager
    def lifted(self, holds: Collection[DeviceHold]) -> Iterator[None]:
        """Let the state show all as it is without some of them, within the block."""
        for each in holds:
            self._state.release(hold_key(each.metadata.name))
        try:
            yield
        finally:
            for each in holds:
                self._state.hold(hold_key(each.metadata.name), _rows(each))


def _rows(hold: DeviceHold) -> list[DeviceResult]:
    """Return the devices of a hold as an allocation has them. Raises BrokenInput naming the field."""
    return [
        DeviceResult.from_json({"request": "hold", **each.to_json()}, f"spec.devices[{index}]")
        for index, each in enumerate(hold.spec.devices)
    ]


def said(hold: DeviceHold) -> str:
    """Return in words what devices are held for, and what to look at."""
    spec = hold.spec
    devices = f"{spec.count} device{'s' if spec.count != 1 else ''}"
    return f"DeviceHold {hold.metadata.name} holds {devices} {what_for(spec)}"


def what_for(spec: DeviceHoldSpec) -> str:
    """Return in words for whom devices are held, and until when."""
    named = [f"{each.kind} {'/'.join(filter(None, (each.namespace, each.name)))}" for each in spec.held_for]
    whose = (named[0] if named else "nobody") + (f" and {len(named) - 1} more" if len(named) > 1 else "")
    match spec.purpose:
        case HoldPurpose.MOVE:
            return f"for pods that {whose} moves, until its moves have ended"
        case HoldPurpose.PREEMPTION:
            return f"for {whose}, for which pods are evicted"
        case HoldPurpose.RESERVATION:
            known = f"is expected to start at {spec.starts:%Y-%m-%dT%H:%M:%SZ}" if spec.starts else ""
            return (
                f"for {whose}, which waits and {known or 'starts when others have ended, nobody knows when'}"
            )
