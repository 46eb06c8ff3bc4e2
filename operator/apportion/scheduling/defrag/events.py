"""Every Event of DefragPolicies, one function each, with a fixed reason."""

from apportion.api.defrag import DefragPolicy
from apportion.cluster.kinds import DEFRAGS
from apportion.cluster.recorder import About, Recorder


def broken(recorder: Recorder, policy: DefragPolicy, text: str) -> None:
    """The policy cannot work as it is written."""
    recorder.warning(_about(policy), "BrokenDefragPolicy", text)


def planned(recorder: Recorder, policy: DefragPolicy, text: str) -> None:
    """A plan was made in a window."""
    recorder.normal(_about(policy), "MovesPlanned", text)


def _about(policy: DefragPolicy) -> About:
    return About(DEFRAGS, policy.metadata.name, policy.metadata.uid)
