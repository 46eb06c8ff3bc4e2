"""A process that uses the backend once and may be killed in it: `creator.py ROOT create|destroy PROFILE START SIZE`.

It prints the UUIDs of what is there afterwards, and finds the fake driver through its environment as any program would.
"""

import sys
from pathlib import Path

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.values import PartitionPlace, Placement


def main() -> None:
    root, verb, profile, start, size = sys.argv[1:]
    backend = NvmlBackend(Path(root))
    place = PartitionPlace("gpu-0", profile, Placement(int(start), int(size)))
    if verb == "create":
        backend.create(place)
    else:
        backend.destroy(next(live for live in backend.partitions() if live.place == place))
    sys.stdout.write("".join(f"{live.uuid}\n" for live in backend.partitions()))


if __name__ == "__main__":
    main()
