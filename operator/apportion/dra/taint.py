"""Taints on devices and nodes, and tolerations of requests and pods."""

from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.reading import Json


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
    """A toleration of a request or a pod (resource.k8s.io/v1 `DeviceToleration`, core/v1 `Toleration`)."""

    key: str = ""
    """Empty matches every key (with operator Exists)."""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    """Empty matches every effect."""
    seconds: int | None = None

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "Toleration":
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
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first blocking taint without a toleration, None when there is none."""
    for taint in taints:
        if taint.blocks and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
