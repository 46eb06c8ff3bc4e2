"""The trials of a real node, by what a person calls them: faults of cards and disks, and devices that are more than a file.

In: nothing. Out: coroutines that take an installation and pods, and raise TestbedError when a pod was given or denied something wrongly.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from testbed.realnode import faults, sharedcards
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import Workload

Trial = Callable[[RealNodeInstallation, Workload], Awaitable[None]]

TRIALS: Final[Mapping[str, Trial]] = {
    "a GPU leaves the driver's list": faults.shift_indices,
    "device files are swapped": faults.swap_minors,
    "the disk is full": faults.fill_disk,
    "a driver's call hangs": faults.hang_call,
    "one driver of two fails": faults.fail_other_driver,
    "the driver is exchanged": faults.exchange_driver,
    "two pods share a GPU": sharedcards.share_gpu,
    "a NIC's interface goes into its pod": sharedcards.lend_interface,
}
