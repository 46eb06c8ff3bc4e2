"""What is done to a card or for its daemon, as `Hardware.set_up` takes it: an act on the backend's sharing, and the name of the card.

In: values by keyword. Out: what the backend answers.
"""

from apportion.agent.devices.sharing import ControlDaemon, Sharing, TimeSlice


def set_time_slice(sharing: Sharing, card: str, *, time_slice: TimeSlice) -> None:
    """Set the time slice of a whole card."""
    sharing.set_time_slice(card, time_slice)


def set_exclusive(sharing: Sharing, card: str, *, exclusive: bool) -> None:
    """Let one process at a time have contexts on a whole card, or any."""
    sharing.set_exclusive(card, exclusive=exclusive)


def limited(sharing: Sharing, _: str, *, daemon: ControlDaemon) -> bool:
    """Say whether a daemon that runs has its limits."""
    return sharing.has_limits(daemon)


def start_daemon(sharing: Sharing, _: str, *, daemon: ControlDaemon, seconds: float) -> None:
    """Have a daemon run with its limits."""
    sharing.start_daemon(daemon, seconds)
