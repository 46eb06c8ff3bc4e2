"""The node of the benchmarks that run real processes: eight H100, and the smallest partition of one."""

from typing import Final

from testbed.api import Json

CARDS: Final = 8
MODEL: Final = "H100-80GB"
SIMULATION: Final[Json] = {"cards": [{"model": MODEL, "count": CARDS}]}
"""The cards, as in a simulation file of the agent: 8 GPUs with 25 MIG placements each, 208 devices."""
RESOURCES: Final = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "7Ti", "pods": "250"}
PROFILE: Final = "1g.10gb"
MOST_CUT: Final = 7
"""Partitions of this profile that fit on a card."""
PROFILE_SELECTORS: Final[list[Json]] = [
    {"cel": {"expression": f'device.attributes["gpu.apportion.dev"].profile == "{PROFILE}"'}}
]
"""Selectors of a request for a partition of this profile."""
