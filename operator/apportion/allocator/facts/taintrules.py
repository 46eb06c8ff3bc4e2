"""TaintRules: DeviceTaintRules by the pools that they name.

In: rules as they come and go. Out: the taints that the devices of a slice have by them, without comparing each device with each rule: a
rule for one broken device names its pool, and there are as many of them as broken devices.
"""

from collections.abc import Iterator

from apportion.dra.device import DeviceId
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taint import Taint
from apportion.dra.taintrule import DeviceTaintRule


class TaintRules:
    """All rules."""

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}
        """By name."""
        self._naming: dict[str, dict[str, DeviceTaintRule]] = {}
        """By the name of the pool that they name, "" for those that name none; then by their own name."""

    def put(self, rule: DeviceTaintRule) -> tuple[DeviceTaintRule, ...]:
        """Add a rule, or replace its version; returns the versions before and after, none where nothing changed."""
        if self._rules.get(rule.name) == rule:
            return ()
        former = self.drop(rule.name)
        self._rules[rule.name] = rule
        self._naming.setdefault(rule.pool, {})[rule.name] = rule
        return (*former, rule)

    def drop(self, name: str) -> tuple[DeviceTaintRule, ...]:
        """Remove a rule; returns it, none if there is none of this name."""
        rule = self._rules.pop(name, None)
        if rule is None:
            return ()
        named = self._naming[rule.pool]
        del named[name]
        if not named:
            del self._naming[rule.pool]
        return (rule,)

    def taints(self, piece: Slice) -> dict[int, tuple[Taint, ...]]:
        """Return the taints of a slice's devices by their position, those of several rules in the order of the rules' names."""
        found: dict[int, tuple[Taint, ...]] = {}
        for rule in sorted(self._of(piece.pool), key=lambda each: each.name):
            for index, device in enumerate(piece.devices):
                if rule.covers(device.id):
                    found[index] = (*found.get(index, ()), rule.taint)
        return found

    def covering(self, device: DeviceId) -> Iterator[DeviceTaintRule]:
        """Yield the rules by which a device has a taint."""
        for name in ("", device.pool):
            yield from (rule for rule in self._naming.get(name, {}).values() if rule.covers(device))

    def _of(self, pool: PoolId) -> Iterator[DeviceTaintRule]:
        for name in ("", pool.name):
            for rule in self._naming.get(name, {}).values():
                if rule.reaches(pool):
                    yield rule
