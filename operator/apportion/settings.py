"""Settings of the operator, with units."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CARDS: Final[Mapping[str, str]] = {
    "gpu.apportion.dev": "gpu",
    "npu.apportion.dev": "npu",
    "rdma.apportion.dev": "nic",
}
"""The kind of card that each of our agents' drivers is for, by the names that drivers have unless options say otherwise."""
DRIVERS: Final = frozenset(CARDS)
"""These names."""


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """The pace of the allocating task."""

    quiet: float = 0.005
    """Seconds without a change before a cycle starts. Longer: bigger batches. Shorter: sooner answers."""

    longest: float = 0.1
    """Seconds after which a cycle starts even if changes keep coming, so that a busy cluster cannot starve it."""

    idle: float = 2.0
    """Seconds after which a cycle starts although nothing changed, because time-outs and exclusions end."""

    stuck: float = 60.0
    """Seconds without a pass after which a leader counts as dead, and gives the lease back."""
    selectors: int = 20_000_000
    """CEL cost units that the selectors of one claim may spend on all devices of the cluster, about four seconds of CPU;
    one evaluation on one device may spend a million (resource.k8s.io)."""

    writes: int = 32
    """How many writes to the API server may run at once."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Leader election."""

    name: str = "apportion-operator"
    """Name of the Lease, in the operator's namespace."""

    duration: float = 15.0
    """Seconds after which another replica may take over."""

    renew: float = 3.0
    """Seconds between renewals."""

    reserve: float = 5.5
    """Seconds that the lease must still be valid when a write begins; more than `patience`."""

    acting: float = 30.0
    """Seconds within which a replica that gained the lease must act, else it gives the lease back."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web page."""

    port: int = 0
    """Port on the loopback addresses; 0: there is no page."""

    hosts: frozenset[str] = frozenset()
    """Names beside those of the loopback addresses by which it may be asked for."""

    log_format: str = "json"
    """Form of its log lines: json or console."""

    memory: int | None = None
    """Bytes that its process may take; None: half of what the container may."""


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """All settings of the operator."""

    namespace: str = "apportion-system"
    """Namespace of the operator and of its Lease."""

    identity: str = "apportion"
    """Name of this replica in the Lease; must be unique, for instance the pod's name and a random suffix."""

    kubeconfig: Path | None = None
    """Kubeconfig file; None: the pod's service account."""

    patience: float = 5.0
    """Seconds after which a request counts as failed."""

    health_port: int = 8080
    """Port of /healthz, /readyz and /metrics; 0: none."""

    schedulers: frozenset[str] = frozenset({"default-scheduler"})
    """Schedulers (`spec.schedulerName`) whose pods are served: devices given to a pod that nobody binds are lost to others."""

    drivers: frozenset[str] = DRIVERS
    """DRA drivers under whose names our agents publish: a claim with a configuration for them that they would refuse gets no devices."""

    cycle: CycleSettings = field(default_factory=CycleSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    web: WebSettings = field(default_factory=WebSettings)
