"""Every Event of defragmentation, one function each, with a fixed reason.

On a pod nothing is said of other namespaces; on the policy, which administrators read, all is named.
"""

from apportion.api.defrag import Campaign, CampaignMove, DefragPolicy
from apportion.cluster.kinds import DEFRAGS, PODS
from apportion.cluster.recorder import About, Recorder
from apportion.dra.pod import Pod

__all__ = ["Recorder", "broken", "ended", "moved", "planned", "resumed"]


def broken(recorder: Recorder, policy: DefragPolicy, text: str) -> None:
    """The policy cannot work as it is written."""
    recorder.warning(_about(policy), "BrokenDefragPolicy", text)


def planned(recorder: Recorder, policy: DefragPolicy, text: str) -> None:
    """A plan was made in a window."""
    recorder.normal(_about(policy), "MovesPlanned", text)


def resumed(recorder: Recorder, policy: DefragPolicy, campaign: Campaign) -> None:
    """What was begun goes on: by another leader, or after the answer to its first write was lost."""
    recorder.normal(_about(policy), "MovesResumed", f"what was begun before goes on: {campaign.progress}")


def moved(recorder: Recorder, policy: DefragPolicy, pod: Pod, move: CampaignMove) -> None:
    """A pod was evicted; its place is held."""
    recorder.warning(
        About(PODS, pod.name, pod.uid, pod.namespace),
        "Moved",
        f"evicted, because DefragPolicy {policy.metadata.name} makes room here; devices of node {move.target.node} are kept"
        " for the pod that its controller makes instead",
    )


def ended(recorder: Recorder, policy: DefragPolicy, campaign: Campaign) -> None:
    """A plan was carried out, or given up."""
    text = f"{campaign.progress}; {campaign.reason}: {campaign.message}"
    if campaign.reason == "Completed":
        recorder.normal(_about(policy), "MovesEnded", text)
    else:
        recorder.warning(_about(policy), "MovesEnded", text)


def _about(policy: DefragPolicy) -> About:
    return About(DEFRAGS, policy.metadata.name, policy.metadata.uid)
