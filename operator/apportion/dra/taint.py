"""Taints on devices and nodes, and tolerations of requests and pods."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from apportion.dra import reading
from apportion.dra.reading import Json

_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint. `timeAdded` does not affect decisions and is not read."""

    key: str
    effect: str
    """NoSchedule, NoExecute, PreferNoSchedule (nodes), None (devices); unknown effects block nothing."""
    value: str = ""

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "Taint":
        """Read v1 `Taint` or resource.k8s.io/v1 `DeviceTaint`."""
        return cls(
            key=reading.text(raw, "key", at=at),
            effect=reading.text(raw, "effect", at=at, default=""),
            value=reading.text(raw, "value", at=at, default=""),
        )

    @property
    def blocks(self) -> bool:
        """Whether it prevents new use without a toleration."""
        return self.effect in {"NoSchedule", "NoExecute"}


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a request (resource.k8s.io/v1 `DeviceToleration`); that of a pod is a `PodToleration`."""

    key: str = ""
    """Empty matches every key (with operator Exists)."""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    """Empty matches every effect."""
    seconds: int | None = None
    comparing: ClassVar[bool] = False
    """Whether the operators Gt and Lt are known."""

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> Self:
        """Read a toleration as the API stores it."""
        return cls(
            key=reading.text(raw, "key", at=at, default=""),
            operator=reading.text(raw, "operator", at=at, default="") or "Equal",
            value=reading.text(raw, "value", at=at, default=""),
            effect=reading.text(raw, "effect", at=at, default=""),
            seconds=reading.number(raw, "tolerationSeconds", at=at) if "tolerationSeconds" in raw else None,
        )

    def tolerates(self, taint: Taint) -> bool:
        """Say whether this toleration covers the taint (dra.md: empty key or effect means all)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.comparing and self.operator in {"Gt", "Lt"}:
            found, bound = _whole(taint.value), _whole(self.value)
            if found is None or bound is None:
                return False
            return found > bound if self.operator == "Gt" else found < bound
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class PodToleration(Toleration):
    """A toleration of a pod (core/v1 `Toleration`): operators Gt and Lt compare numbers (alpha since 1.35)."""

    comparing: ClassVar[bool] = True


def _whole(text: str) -> int | None:
    """Read a number as comparisons do (toleration.go `compareNumericValues`): without leading zeros and plus; None for other texts."""
    return reading.int64(text) if _WHOLE.fullmatch(text) else None


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first blocking taint without a toleration, None when there is none."""
    for taint in taints:
        if taint.blocks and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


class Tolerance:
    """What tolerations leave of taints: many nodes have the same ones, and a pod may have hundreds of tolerations."""

    def __init__(self, tolerations: tuple[Toleration, ...]) -> None:
        self._tolerations = tolerations
        self._found: dict[tuple[Taint, ...], Taint | None] = {}

    def untolerated(self, taints: tuple[Taint, ...]) -> Taint | None:
        """Return the first blocking taint without a toleration; equal taints are compared once."""
        if taints and taints not in self._found:
            self._found[taints] = untolerated(taints, self._tolerations)
        return self._found[taints] if taints else None
