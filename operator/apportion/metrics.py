"""Metrics of the operator, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

CYCLES = Counter("apportion_cycles", "Passes of the allocating task.")
CYCLE_SECONDS = Histogram(
    "apportion_cycle_seconds",
    "Length of one pass of the allocating task, in seconds.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
DECISIONS = Counter("apportion_decisions", "Decisions about demands.", ["verdict"])
ALLOCATIONS = Counter("apportion_allocations", "Written allocations.", ["result"])
ALLOCATION_SECONDS = Histogram(
    "apportion_allocation_seconds",
    "From the first sight of a claim's demand to its written allocation, in seconds.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600),
)
TAKE_BACKS = Counter("apportion_take_backs", "Allocations that kube-scheduler took back.")
GIVE_BACKS = Counter("apportion_give_backs", "Allocations that were given back.", ["reason"])
PREEMPTIONS = Counter("apportion_preemptions", "Preemptions, by how they ended.", ["result"])
PREEMPTED_PODS = Counter("apportion_preempted_pods", "Pods that were evicted for others.")
UNGATED = Counter("apportion_ungated_pods", "Pods whose scheduling gate was removed.")
OVERLAPS = Gauge("apportion_overlaps", "Devices or counters that live allocations use twice.")
PENDING = Gauge("apportion_pending_demands", "Demands that wait for devices.")
LEADING = Gauge("apportion_leading", "1 while this replica may act.")
LEASE_CHANGES = Counter(
    "apportion_lease_changes", "How often this replica gained or lost the lease.", ["change"]
)
WATCH_AGE = Gauge(
    "apportion_watch_age_seconds",
    "Since the API server last said anything about a kind, in seconds; it does so about once a minute.",
    ["kind"],
)
