"""The agent's metrics.

In: the journal, the claims that hold devices, the health of cards. Out: a registry for /metrics, and the histogram of prepare calls.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apportion import metrics
from apportion.agent.devices.values import Health
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.lifecycle.context import AgentContext
from apportion.metrics import Described
from apportion.probes import Probe

PREPARE_SECONDS = Described(
    "apportion_agent_prepare_seconds", "Successful prepare calls of kubelet.", ("driver",)
)
PARTITIONS = Described("apportion_agent_partitions", "Partitions in the journal.")
CLAIMS = Described("apportion_agent_claims", "Claims prepared on this node.")
HELD_CLAIMS = Described("apportion_agent_held_claims", "Claims that hold devices which they lost.")
READY = Described("apportion_agent_ready", "1 while slices are published and sockets served.")
CARDS = Described("apportion_agent_cards", "Cards of the node, by health as last read.", ("kind", "health"))
GAUGES = (PARTITIONS, CLAIMS, HELD_CLAIMS, READY, CARDS)


class AgentMetrics:
    """One registry, in which counts are asked when it is read."""

    def __init__(
        self,
        context: AgentContext,
        held_claims: HeldClaims,
        inventory: InventoryBuilder,
        unready: Probe,
    ) -> None:
        """`unready` says why the agent is not ready."""
        journal = context.journal
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        for each in metrics.OF_AGENT:
            self.registry.register(each)
        self.registry.register(Cards(context, inventory))
        self.prepare_seconds = Histogram(*PREPARE_SECONDS, registry=self.registry)
        for described, count in (
            (PARTITIONS, lambda: len(journal.partitions())),
            (CLAIMS, lambda: len(journal.claims())),
            (HELD_CLAIMS, lambda: len(held_claims.rows())),
            (READY, lambda: float(unready() is None)),
        ):
            Gauge(described.name, described.text, registry=self.registry).set_function(count)


class Cards(Collector):
    """Cards of the node by health."""

    def __init__(self, context: AgentContext, inventory: InventoryBuilder) -> None:
        self._hardware = context.hardware
        self._inventory = inventory

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric."""
        found = GaugeMetricFamily(CARDS.name, CARDS.text, labels=CARDS.labels)
        health = self._inventory.health
        cards = Counter(
            (each.kind, health.get(name, Health.HEALTHY)) for name, each in self._hardware.cards.items()
        )
        for labels, count in sorted(cards.items()):
            found.add_metric(labels, count)
        yield found
