"""restart_cost(): what it costs to restart pods, as one number.

In: how many, their priority, for how long they have had their devices, how long they run at most. Out: seconds of lost work, weighed.
"""

START = 60
"""Seconds that a start costs, whatever was done before it: image, model and data are loaded anew."""
MOST_WEIGHT = 64
"""A pod that has nearly ended counts at most so many times: it is cheaper to wait for it."""


def restart_cost(pods: int, priority: int, age: float, declared: float | None = None) -> int:
    """Return the cost of restarting some pods of equal priority and age (seconds).

    What was computed so far is lost, because nobody says what was saved. A pod that declares its runtime counts the more the less of it is
    still to come: at half of it twice, because what it has is free soon anyway; one that runs longer than it said has declared nothing.
    A priority counts by its number of binary digits: priorities are orders of magnitude, not amounts.
    """
    seconds = START + max(0.0, age)
    if declared is not None and age < declared:
        seconds *= min(declared / (declared - age), MOST_WEIGHT)
    return pods * round(seconds) * (1 + max(0, priority).bit_length())
