"""The Events about reservations and declared runtimes."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from apportion.allocator.reservation import ReservationPlan
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.cluster.recorder import About, Recorder
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand

_MOST_NAMED = 8
"""Devices and pods that one text names."""


def reserved(
    recorder: Recorder,
    demands: Iterable[WaitingDemand],
    plan: ReservationPlan,
    since: float,
    awaited: Sequence[Pod],
) -> None:
    """Devices are reserved: which, since when, and until when others have them. `awaited`: the pods that use them now."""
    devices = _named([str(result.device) for result in plan.results])
    text = f"reserved {devices} since {_time(since)}; "
    names = _named([pod.key for pod in awaited])
    if plan.start is not None:
        text += f"expected to start at {_time(plan.start)}"
        text += f", when {names} will have ended by declared runtimes" if awaited else ""
    else:
        silent = _named([pod.key for pod in awaited if pod.runtime.longest() is None])
        why = f"{silent} declare no runtime (annotation apportion.dev/max-runtime)" if silent else ""
        text += f"when it starts is not known: {why or f'{names} have not ended'}"
    for demand in demands:
        for about in (
            *(About(CLAIMS, each.name, each.uid, each.namespace) for each in demand.claims),
            *(About(PODS, each.name, each.uid, each.namespace) for each in demand.pods),
        ):
            recorder.normal(about, "Reserved", text)


def bad_runtime(recorder: Recorder, pod: Pod) -> None:
    """The pod's annotation cannot be read."""
    text = f"Pod {pod.key}: {pod.runtime.flaw}; the pod counts as one that declares no runtime"
    recorder.warning(About(PODS, pod.name, pod.uid, pod.namespace), "BadRuntime", text)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"
