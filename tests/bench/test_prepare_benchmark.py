"""`python -m bench.prepare`."""

from bench.prepare import Figures, measure
from testbed.binaries import Binaries


async def test_claims_are_prepared_released_and_timed(binaries: Binaries) -> None:
    """Every claim is prepared and released, half of them before their partition is cut; the figures are consistent."""
    figures = await measure(6, 3, binaries)
    assert isinstance(figures, Figures)
    assert figures.claims == 6
    assert 0 < figures.ready_p50 <= figures.ready_p99 < 30_000
    assert 0 < figures.cold_p50 <= figures.cold_p99 < 30_000
    assert figures.cpu_per_claim > 0
    assert figures.claims_per_second > 0
