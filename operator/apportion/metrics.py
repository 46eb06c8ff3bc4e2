"""Counters, histograms and gauges that the code sets as things happen, for Prometheus: the operator's, and the agent's.

In: what happened. Out: values at /metrics. What is computed when Prometheus asks is in `gauges/`. No label holds the name of an object.
"""

import re
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from apportion import __version__

# The time of the first event of each series would double their number.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has it without types


class Described(NamedTuple):
    """A metric that is made elsewhere."""

    name: str
    text: str
    labels: tuple[str, ...] = ()


class Passes(Histogram):
    """Lengths of passes; the longest has a gauge of its own, because beyond the last bucket nobody knows how long it was."""

    _longest = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count a pass of so many seconds."""
        super().observe(amount, exemplar)
        if amount > self._longest:
            self._longest = amount
            CYCLE_LONGEST_SECONDS.set(amount)


BUILD = Gauge("apportion_build_info", "The version that runs; always 1.", ["version"])
BUILD.labels(__version__).set(1)

CYCLES = Counter("apportion_cycles", "Passes of the allocating task.")
CYCLE_LONGEST_SECONDS = Gauge(
    "apportion_cycle_longest_seconds", "The longest pass of the allocating task since the process started."
)
CYCLE_SECONDS = Passes(
    "apportion_cycle_seconds",
    "Length of one pass of the allocating task.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
DECISIONS = Counter("apportion_decisions", "Decisions about demands.", ["verdict"])
DEFECTIVE_STEPS = Counter(
    "apportion_defective_steps", "Steps of passes that were left out, by a defect of apportion.", ["step"]
)
ALLOCATIONS = Counter("apportion_allocations", "Written allocations.", ["result"])
ALLOCATION_SECONDS = Histogram(
    "apportion_allocation_seconds",
    "From when a claim's demand was first seen to its written allocation; waiting for devices is in it.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)
TAKE_BACKS = Counter("apportion_take_backs", "Allocations that kube-scheduler took back.")
GIVE_BACKS = Counter("apportion_give_backs", "Allocations that were given back.", ["reason"])
PREEMPTIONS = Counter("apportion_preemptions", "Preemptions, by how they ended.", ["result"])
PREEMPTED_PODS = Counter("apportion_preempted_pods", "Pods that were evicted for others.")
DEFRAG_MOVES = Counter(
    "apportion_defrag_moves", "Moves of DefragPolicies, by what became of them.", ["result"]
)
UNGATED = Counter("apportion_ungated_pods", "Pods whose scheduling gate was removed.")
OVERLAPS = Gauge("apportion_overlaps", "Devices or counters that live allocations use twice.")
PENDING = Gauge("apportion_pending_demands", "Demands that wait for devices.")
LEADING = Gauge("apportion_leading", "1 while this replica may act.")
LEASE_CHANGES = Counter(
    "apportion_lease_changes", "How often this replica gained or lost the lease.", ["change"]
)
WATCH_AGE = Gauge(
    "apportion_watch_age_seconds",
    "Since the API server last said anything about a kind; it does so about once a minute.",
    ["kind"],
)
LEASE_REMAINING = Gauge(
    "apportion_lease_remaining_seconds", "Of the lease, as long as this replica holds it."
)
EVENTS = Counter("apportion_events", "Events, by what became of them; dropped: for want of room.", ["result"])
API_REQUESTS = Counter(
    "apportion_api_requests",
    "Requests to the API server, watches aside, by resource and answer: an HTTP status, unreachable, or unanswered.",
    ["method", "resource", "code"],
)
API_SECONDS = Histogram(
    "apportion_api_request_seconds",
    "Until the API server has answered a request, watches aside.",
    ["method"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

_CHANGE = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CUT_SECONDS = Histogram(
    "apportion_agent_cut_seconds",
    "Driver calls that cut a partition, by what became of them.",
    ["kind", "result"],
    buckets=_CHANGE,
    registry=None,
)
REMOVAL_SECONDS = Histogram(
    "apportion_agent_removal_seconds",
    "Driver calls that remove a partition, by what became of them.",
    ["kind", "result"],
    buckets=_CHANGE,
    registry=None,
)
OF_AGENT: Final = (API_REQUESTS, EVENTS, CUT_SECONDS, REMOVAL_SECONDS)
"""What the agent shows beside the metrics of its own objects; there is one on each node, so series are few."""

_RESOURCE = re.compile(r"/(?:api|apis/[^/]+)/v[^/]+/(?:namespaces/[^/]+/)?([a-z]+)")


def note_request(method: str, path: str, code: str, seconds: float) -> None:
    """Count a request to the API server; `code`: the HTTP status, or why there is none."""
    found = _RESOURCE.match(path)
    API_REQUESTS.labels(method, found[1] if found else "other", code).inc()
    API_SECONDS.labels(method).observe(seconds)


KNOWN: Final[tuple[tuple[Counter, tuple[str, ...]], ...]] = (
    (
        DECISIONS,
        (
            *("granted", "none", "node", "budget", "no node", "short", "domain"),
            *("quota", "costly", "broken", "defect", "as before"),
        ),
    ),
    (DEFECTIVE_STEPS, ("reports", "preemption", "autoscaling", "tidying", "ahead")),
    (ALLOCATIONS, ("written", "overtaken", "not leading", "unanswered", "failed")),
    (GIVE_BACKS, ("unwanted", "stalled", "failed cut", "untied", "group", "overlap")),
    (PREEMPTIONS, ("served", "in vain")),
    (DEFRAG_MOVES, ("moved", "given up")),
    (LEASE_CHANGES, ("gained", "lost")),
    (EVENTS, ("written", "failed", "dropped")),
)
"""The values of the label of counters that have one: their series are there from the beginning, so that the first increase is seen."""
for _counter, _values in KNOWN:
    for _value in _values:
        _counter.labels(_value)
