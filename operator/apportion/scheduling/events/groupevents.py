"""Every Event about groups of pods, one function each, with a fixed reason."""

from collections.abc import Iterable

from apportion.allocator.gang.members import DomainShortage
from apportion.cluster.recorder import Recorder
from apportion.dra.groupmembership import LEAST, MOST
from apportion.dra.pod import HCCL_RANK_TABLE, Pod
from apportion.scheduling.demands.groups import CrossGroupDemand, PodGroupState, WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events.events import about_pod, not_allocated


def broken(recorder: Recorder, group: PodGroupState) -> None:
    """The pods' labels and annotations about their group are wrong or disagree."""
    for pod in group.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", f"group {group.key} waits: {group.flaw}")


def incomplete(recorder: Recorder, group: WaitingGroup) -> None:
    """Fewer pods are ready than the group needs."""
    state, ready = group.pod_group, len(group.pods) + group.served
    text = f"group {state.key} waits for pods: {ready} of at least {state.least} are ready"
    if len(state.pods) > ready:
        text += f"; {len(state.pods) - ready} more exist behind other gates, or their claims cannot be served"
    if len(state.pods) == 1 and (alone := state.pods[0].group) is not None and alone.leader:
        text += (
            ". With spec.startupPolicy: LeaderReady its LeaderWorkerSet makes the workers only when the leader runs: the annotation"
            f' {LEAST}: "1" at spec.leaderWorkerTemplate.leaderTemplate lets the leader have its devices first, and its workers have'
            " theirs together"
        )
    for pod in state.pods:
        if pod.node is None:
            recorder.warning(about_pod(pod), "GroupIncomplete", text)


def blocked(
    recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, served: int, blocked: WaitingDemand
) -> None:
    """Another pod of the group cannot be served, so this demand is not either."""
    not_allocated(
        recorder,
        demand,
        f"group {group.pod_group.key} needs devices for {group.enough} of its waiting pods together, and there are"
        f" devices for {served}; {', '.join(pod.name for pod in blocked.pods)} found none",
    )


def too_large(recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, needed: int, free: int) -> None:
    """The group needs more devices than are free."""
    text = (
        f"group {group.pod_group.key} needs {needed} devices for {group.enough} of its waiting pods together, and"
        f" {free} that some of them could use are free"
    )
    not_allocated(recorder, demand, text)


def domain(recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, found: DomainShortage) -> None:
    """No domain has room for enough pods of the group, which have to be in one."""
    best = (
        f"; {', '.join(found.domain)} has the most, for {found.room}" if found.domain else "; no node has it"
    )
    not_allocated(
        recorder,
        demand,
        f"group {group.pod_group.key} needs devices for {group.enough} of its waiting pods on nodes with one value of"
        f" {', '.join(found.labels)}, and no value has room for so many{best}",
    )


def without(recorder: Recorder, group: WaitingGroup, demand: WaitingDemand) -> None:
    """Enough other pods of the group are served; this demand goes on waiting."""
    state = group.pod_group
    text = (
        f"group {state.key} has the {state.least} pods that it needs; there are no devices for this one yet"
    )
    if group.more is not None and group.more < len(group.pods):
        text = f"group {state.key} may have devices for {state.most} pods at once ({MOST}); this one waits for another's end"
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def cross_group(recorder: Recorder, found: CrossGroupDemand) -> None:
    """A claim joins pods of several groups."""
    text = f"its claims join pods of several groups ({', '.join(found.groups)}), so none of them can be served as a whole"
    for pod in found.demand.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", text)


def no_rank_table(recorder: Recorder, pod: Pod, why: str) -> None:
    """The pod loses its gate without the rank table that it asks for."""
    recorder.warning(
        about_pod(pod), "NoRankTable", f"metadata.annotations[{HCCL_RANK_TABLE}] is not written: {why}"
    )


def rank_table_outdated(recorder: Recorder, having: Iterable[Pod], pod: Pod) -> None:
    """A pod has lost its chips before it started, which the rank tables of some pods name."""
    text = (
        f"metadata.annotations[{HCCL_RANK_TABLE}] is not true any more: pod {pod.name} lost its devices before it started, and"
        " will have others; all pods that have the table have to be made anew together"
    )
    for each in having:
        recorder.warning(about_pod(each), "RankTableOutdated", text)
