"""Policies for foreign partitions: those that apportion did not make.

In: nothing. Out: the names of the policies; a module of its own, so that the command line need not load the agent for them.
"""

from enum import StrEnum


class ForeignPolicy(StrEnum):
    """What the agent does about partitions that it did not make. It removes none of them, unless it adopted it."""

    LEAVE = "leave"
    """Subtract what they take, and use the rest of the card."""
    ADOPT = "adopt"
    """As `leave`; but one at the place and of the profile of a layout's partition becomes the layout's, if it is not in use."""
    QUARANTINE = "quarantine"
    """Subtract, and taint the whole card (NoSchedule) until they are gone."""
