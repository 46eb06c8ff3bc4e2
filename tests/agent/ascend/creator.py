"""A process that uses the backend once and may be killed in it: `creator.py ROOT create|destroy CARD TEMPLATE ID`.

It prints the ids of what is there afterwards, and finds the fake driver through its environment as any program would.
"""

import sys
from pathlib import Path

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.values import PartitionPlace, Placement


def main() -> None:
    root, verb, card, template, number = sys.argv[1:]
    backend = AscendBackend(Path(root))
    place = PartitionPlace(card, template, Placement(int(number), 1))
    if verb == "create":
        backend.create(place)
    else:
        backend.destroy(next(live for live in backend.partitions() if live.place == place))
    sys.stdout.write("".join(f"vnpu {live.placement.start}\n" for live in backend.partitions()))


if __name__ == "__main__":
    main()
