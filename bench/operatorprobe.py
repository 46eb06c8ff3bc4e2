"""What a running operator says of itself at /readyz and /metrics.

In: the port of its health server. Out: whether it is ready and leads, and its counters.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_LOOK_SECONDS = 0.05
_PASSES = "apportion_cycle_seconds"
_LONGEST = "apportion_cycle_longest_seconds"
_BUCKET = f'{_PASSES}_bucket{{le="'


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of the allocating task so far, by the wall clock."""

    count: int
    seconds: float
    """Sum of their lengths."""
    within: Mapping[float, int]
    """How many were not longer than so many seconds, for the histogram's limits."""
    longest: float
    """The longest since the process started, in seconds."""

    def __sub__(self, earlier: "Passes") -> "Passes":
        """Return the passes since then."""
        within = {limit: count - earlier.within.get(limit, 0) for limit, count in self.within.items()}
        return Passes(self.count - earlier.count, self.seconds - earlier.seconds, within, self.longest)

    @property
    def mean_ms(self) -> float:
        """Mean length of a pass in milliseconds; 0 without passes."""
        return 1000 * self.seconds / self.count if self.count else 0.0

    @property
    def longest_ms(self) -> float:
        """Milliseconds that no pass was longer than: a limit of the histogram, or the longest pass since the process started."""
        limits = (limit for limit, count in self.within.items() if count >= self.count)
        return 1000 * min([self.longest, *limits])


class OperatorProbe:
    """Asks one replica."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    async def metrics(self) -> Mapping[str, float]:
        """Return the values of all metrics by name with labels; empty while it does not answer."""
        return _values(await self._text("/metrics"))

    async def ready(self) -> bool:
        """Say whether its snapshot is complete; the replica without the lease is ready too."""
        return bool(await self._text("/readyz"))

    async def leads(self) -> bool:
        """Say whether this replica acts now."""
        return (await self.metrics()).get("apportion_leading") == 1.0

    async def passes(self) -> Passes:
        """Return the passes so far."""
        found = await self.metrics()
        within = {
            float(name.removeprefix(_BUCKET).removesuffix('"}')): int(value)
            for name, value in found.items()
            if name.startswith(_BUCKET)
        }
        count, seconds = found.get(f"{_PASSES}_count", 0), found.get(f"{_PASSES}_sum", 0.0)
        return Passes(int(count), seconds, within, found.get(_LONGEST, 0.0))

    async def acting(self, within: float) -> None:
        """Wait until it leads and acts; raises TimeoutError."""
        async with asyncio.timeout(within):
            while not await self.leads():  # noqa: ASYNC110 - another process sends no event
                await asyncio.sleep(_LOOK_SECONDS)

    async def _text(self, path: str) -> str:
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.get(self._address + path) as response,
            ):
                return await response.text() if response.status == 200 else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""


def _values(text: str) -> dict[str, float]:
    """Read the text format of Prometheus."""
    rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}
