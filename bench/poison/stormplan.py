"""The plan of a run: the steady pods of one tenant, and the storm of another.

In: numbers. Out: a plan, or BrokenInput that names the option.
"""

from dataclasses import dataclass
from typing import Final

from apportion.errors import BrokenInput
from bench.endtoend.workload import Workload
from bench.poison.poisons import Poison, Storm

BEFORE: Final = 10
"""Seconds in which the steady pods come before the storm begins."""
_SERVED: Final = 2.0
"""Seconds, at the least, for which there has to be room beyond a pod's stay: being served and being deleted take time too."""


@dataclass(frozen=True, slots=True)
class StormPlan:
    """What is run."""

    workload: Workload
    """The steady pods."""
    storm: Storm
    seconds: int
    """How long the storm lasts."""
    poison_rate: float
    """Objects a second that the attacker makes."""

    def check(self) -> None:
        """Raise BrokenInput for steady pods that do not fit beside the storm, and for a group that fits."""
        work, storm = self.workload, self.storm
        if Poison.GANG in storm.poisons and storm.gang <= storm.devices:
            raise BrokenInput(
                f"--gang {storm.gang}: it has to need more than the {storm.devices} GPUs there are"
            )
        needed, free = work.rate * (work.stay + _SERVED), storm.devices - storm.most_held
        if needed > free:
            raise BrokenInput(
                f"--rate {work.rate:g}: with --stay {work.stay:g} its pods need {needed:.0f} GPUs at once; "
                f"of {storm.devices} on {work.nodes} nodes the storm leaves {free}"
            )
