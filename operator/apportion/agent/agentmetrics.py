"""The agent's metrics.

In: the journal, the claims that hold devices. Out: a registry for /metrics, and the histogram of prepare calls.
"""

from prometheus_client import CollectorRegistry, Gauge, Histogram

from apportion.agent.journal import Journal
from apportion.agent.kubelet.heldclaims import HeldClaims


class AgentMetrics:
    """One registry, in which counts are asked when it is read."""

    def __init__(self, journal: Journal, held_claims: HeldClaims) -> None:
        self.registry = CollectorRegistry()
        self.prepare_seconds = Histogram(
            "apportion_agent_prepare_seconds",
            "Time that a successful prepare call took, by driver",
            ["driver"],
            registry=self.registry,
        )
        for name, text, count in (
            ("partitions", "Partitions in the journal", lambda: len(journal.partitions())),
            ("claims", "Claims prepared on this node", lambda: len(journal.claims())),
            ("held_claims", "Claims that hold devices which they lost", lambda: len(held_claims.rows())),
        ):
            Gauge(f"apportion_agent_{name}", text, registry=self.registry).set_function(count)
