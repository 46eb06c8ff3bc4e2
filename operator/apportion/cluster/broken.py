"""An object that the snapshot leaves out, and why."""

from dataclasses import dataclass

from apportion.cluster.kinds import Kind
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class Broken:
    """An object that cannot be read."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    error: BrokenInput
