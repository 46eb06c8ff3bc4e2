"""Tidying: the last step of a pass, which takes back what nobody uses or nobody can use.

In: the snapshot, the demands that waited in this pass. Out: clears, removals of our finalizer and claims to look at once more, written in the background.
"""

from collections.abc import Callable, Generator, Iterable, Iterator

from apportion.api.contract import ALLOCATION_FINALIZER
from apportion.api.partition import HolderKind
from apportion.cluster.indexes.deviceindex import device_of
from apportion.dra.claim import Claim
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.clearing.awaitedcuts import PATIENCE, AwaitedCuts, awaited_of
from apportion.scheduling.clearing.clearing import UnusedAllocations
from apportion.scheduling.clearing.goneconsumers import GoneConsumers
from apportion.scheduling.clearing.stalled import StalledAllocations
from apportion.scheduling.clearing.wantedclaims import WantedClaims
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.consumers import is_taken_up
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites


class Tidying:
    """Clears allocations that no pod wants, that no scheduler takes up, or whose partition could not be cut, or is not."""

    def __init__(
        self,
        decider: Decider,
        exclusions: Exclusions,
        writes: BackgroundWrites,
        clock: Callable[[], float],
        *,
        manager: str,
        is_evaluated: Callable[[WaitingDemand], bool],
    ) -> None:
        """`manager` is our field manager: only what we wrote is cleared. `is_evaluated`: as `WantedClaims` has it."""
        snapshot = self._snapshot = decider.snapshot
        self._writes = writes
        self._exclusions = exclusions
        self._unused = UnusedAllocations(snapshot, clock, manager=manager)
        self._gone = GoneConsumers(snapshot, clock, manager=manager)
        self._awaited_cuts = AwaitedCuts(snapshot, clock, manager=manager, ungating=writes.ungating)
        lifted = decider.reservations.all_lifted
        wanted = WantedClaims(snapshot, decider.candidates, exclusions, clock, is_evaluated, lifted)
        self._stalled = StalledAllocations(
            snapshot,
            wanted,
            exclusions,
            clock,
            manager=manager,
            ungating=writes.ungating,
            refused=lambda: writes.gate_removals.refused,
        )

    def begin(self) -> None:
        """Begin to act: for how long claims were unused while another replica acted was not looked at."""
        for each in (self._unused, self._stalled, self._gone, self._awaited_cuts):
            each.begin_anew()

    def tidy(self, demands: Iterable[WaitingDemand], awaited: Iterable[Claim]) -> Generator[None, None, None]:
        """Clear what is due; `demands`: what waited in this pass, `awaited`: whose partitions pods wait for. Yields where others may run."""
        for claim, why in (yield from self._unused.due()):
            self._writes.clear(claim, why, "unwanted")
        for claim in (yield from self._stalled.due(demands)):
            self._writes.clear(
                claim, "no scheduler takes its pod, and others wait for the devices", "stalled"
            )
        yield from self._gone.steps()
        for claim in self._gone.due():
            self._writes.recheck(claim)
        self._clear_failed_cuts()
        yield from self._clear_overdue_cuts(awaited)
        self._release_finalizers()

    def _clear_failed_cuts(self) -> None:
        """Clear allocations whose partition could not be cut, as long as no pod has taken them up."""
        for partition in self._snapshot.devices.failed.values():
            holder, device = partition.spec.holder, device_of(partition)
            # What a layout has is cut for nobody, and failed for each claim that got it.
            of_layout = holder is not None and holder.kind is HolderKind.LAYOUT
            for claim in self._snapshot.claims_of(self._snapshot.claim_index.holders(device)):
                if self._snapshot.devices.partition(device, claim.uid) is not partition:
                    # It is a further one for the device; the claim has another one.
                    continue
                own = holder is not None and holder.uid == claim.uid
                if not (own or of_layout) or is_taken_up(claim, self._snapshot):
                    continue
                self._exclusions.refuse_device(device)
                text = f"partition {partition.metadata.name} could not be cut: {partition.status.message}"
                self._writes.clear(claim, text.removesuffix(": "), "failed cut")

    def _clear_overdue_cuts(self, awaited: Iterable[Claim]) -> Iterator[None]:
        """Clear allocations whose partition nobody cuts; it is not looked for at the same place at once. Yields after each few of their pods."""
        snapshot, exclusions, pace = self._snapshot, self._exclusions, Pace()
        for claim in self._awaited_cuts.overdue(awaited):
            devices = awaited_of(claim, snapshot)
            for device in devices:
                exclusions.refuse_device(device)
            names = ", ".join(map(str, devices))
            text = (
                f"no agent cut its partition, or removed those of its card ({names}), within {PATIENCE:.0f} s"
            )
            self._writes.clear(claim, text, "failed cut")
            name = claim.allocation.node if claim.allocation is not None else None
            if name is not None and (node := snapshot.node(name)) is not None:
                for pod in snapshot.users(claim):
                    if pace.rests():
                        yield
                    exclusions.refuse_node(pod.uid, node)

    def _release_finalizers(self) -> None:
        for claim in self._snapshot.claims_of(self._snapshot.claim_index.leaving):
            if ALLOCATION_FINALIZER in claim.finalizers and claim.allocation is None:
                self._writes.release(claim)
