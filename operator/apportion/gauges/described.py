"""Every gauge that is computed when Prometheus asks, with its labels and its meaning.

No label holds the name of a node, a pod or a claim: the number of series follows models, profiles, taints, reasons, quotas and
namespaces, of which the smallest are counted together (`MOST_NAMESPACES`).
"""

from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily

from apportion.metrics import Described

MOST_NAMESPACES = 500
"""Namespaces that have series of their own: those where most claims wait."""
OTHERS = "(others)"
"""The label of all others; no namespace can have this name."""


class Sample(NamedTuple):
    """One value of a gauge."""

    gauge: Described
    labels: tuple[str, ...]
    value: float


_KIND = ("driver", "model", "device")
_MODEL = ("driver", "model")

CAPACITY = Described(
    "apportion_devices_capacity",
    "Devices of a kind that could be given out if nothing were held: the best choice per set of counters.",
    _KIND,
)
PLACEABLE = Described(
    "apportion_devices_placeable",
    "Devices of a kind that could be given out now, each kind by itself: whole devices and partitions of one card share it.",
    _KIND,
)
STRANDED = Described(
    "apportion_devices_stranded",
    "Devices of a kind that nobody holds and hardly anybody can get: their node is cordoned, they are tainted, or (host; counted as"
    " placeable too) less cpu or memory is left than any recent pod asked for.",
    (*_KIND, "cause"),
)
SLICES = Described(
    "apportion_slices",
    "Slices that cards have: memory slices of a GPU, AI cores of an NPU, 1 for a device without parts; those of layouts not counted.",
    _MODEL,
)
SLICES_FREE = Described("apportion_slices_free", "Slices that nobody holds.", _MODEL)
SLICES_SCATTERED = Described(
    "apportion_slices_scattered",
    "Free slices that the largest device that fits on their card leaves: divided by the free ones, the fragmentation.",
    _MODEL,
)
TAINTED = Described(
    "apportion_cards_tainted",
    "Whole devices with a taint other than the guard; keys that are not of apportion.dev count as other.",
    (*_MODEL, "taint", "effect"),
)
PENDING_CLAIMS = Described(
    "apportion_pending_claims",
    "Claims that wait for devices; one that names several DeviceClasses counts for each.",
    ("namespace", "device_class"),
)
OLDEST_PENDING = Described(
    "apportion_oldest_pending_claim_seconds",
    "For how long the claim has waited that has waited longest.",
    ("namespace",),
)
QUEUE = Described(
    "apportion_queue_claims",
    "Claims that wait, by the reason of the last Event about them, else about their pods; Undecided: there was none yet.",
    ("reason",),
)
QUEUE_OLDEST = Described(
    "apportion_queue_oldest_seconds",
    "For how long the claim has waited that has waited longest, by the same reasons.",
    ("reason",),
)
ALLOCATED = Described(
    "apportion_allocated_claims", "Claims that have devices, those of other allocators included."
)
RESERVED = Described(
    "apportion_reserved_demands", "Demands for which devices are kept until others end (ADR 0027)."
)
UNANSWERED = Described(
    "apportion_unanswered_writes",
    "Allocations that may have been written, or may be later, without anybody knowing.",
)
PARTITIONS = Described("apportion_partitions", "Partition objects by phase.", ("driver", "phase"))
OBJECTS = Described("apportion_observed_objects", "Objects that the watches show.", ("kind",))
UNREADABLE = Described("apportion_unreadable_objects", "Objects that cannot be read.", ("kind",))
QUOTA_USED = Described(
    "apportion_quota_used", "What the namespaces of a quota have of a resource.", ("quota", "resource")
)
QUOTA_GUARANTEED = Described(
    "apportion_quota_guaranteed", "What is guaranteed to a quota of a resource.", ("quota", "resource")
)
QUOTA_LIMIT = Described(
    "apportion_quota_limit",
    "The limit of a quota for a resource; none where it has none.",
    ("quota", "resource"),
)
QUOTA_BORROWED = Described(
    "apportion_quota_borrowed", "What a quota uses beyond its guarantee.", ("quota", "resource")
)
QUOTA_PENDING = Described(
    "apportion_quota_pending_demands",
    "Demands of a quota that wait for the limit of a resource; with an empty resource, those that wait for devices.",
    ("quota", "resource"),
)
QUOTA_SHARE = Described(
    "apportion_quota_share_ratio",
    "Weighted dominant share of what a quota uses beyond its guarantees, from 0 to 1 at weight 1 (ADR 0026).",
    ("quota",),
)
ALL = (
    *(CAPACITY, PLACEABLE, STRANDED, SLICES, SLICES_FREE, SLICES_SCATTERED, TAINTED),
    *(PENDING_CLAIMS, OLDEST_PENDING, QUEUE, QUEUE_OLDEST, ALLOCATED, RESERVED, UNANSWERED),
    *(PARTITIONS, OBJECTS, UNREADABLE),
    *(QUOTA_USED, QUOTA_GUARANTEED, QUOTA_LIMIT, QUOTA_BORROWED, QUOTA_PENDING, QUOTA_SHARE),
)


def families() -> tuple[GaugeMetricFamily, ...]:
    """Return all gauges in the order of `ALL`, without a value: each has its description only."""
    return tuple(GaugeMetricFamily(each.name, each.text, labels=each.labels) for each in ALL)
