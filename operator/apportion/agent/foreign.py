"""Foreign partitions: what the agent does about those that somebody made by hand.

In: nothing. Out: the names of the policies; a module of its own, so that the command line need not load the agent for them.
"""

from enum import StrEnum


class ForeignPolicy(StrEnum):
    """What to do about partitions that somebody made by hand. They are never removed while they are somebody else's."""

    LEAVE = "leave"
    """Subtract what they take, and use the rest of the card."""
    ADOPT = "adopt"
    """As `leave`; but one that stands where a layout wants the same becomes the layout's, if nobody uses it."""
    QUARANTINE = "quarantine"
    """Subtract, and taint the whole card (NoSchedule) until they are gone."""
