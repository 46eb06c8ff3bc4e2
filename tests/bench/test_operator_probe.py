"""What the benchmarks say of the operator's passes."""

from apportion import metrics
from apportion.probes import Probes
from bench.operatorprobe import OperatorProbe, Passes
from testbed.ports import free_ports


async def _seen(probe: OperatorProbe, *seconds: float) -> Passes:
    """Let passes of these lengths be counted, and return all so far."""
    for each in seconds:
        metrics.CYCLE_SECONDS.observe(each)
    return await probe.passes()


async def test_no_pass_was_longer_than_said_whatever_the_histogram_ends_with() -> None:
    """The longest of a span is known where it is the longest of all; else a limit of the histogram is, or the longest of all."""
    [port] = free_ports(1)
    probes = Probes(port, ready=lambda: None)
    await probes.start()
    try:
        probe = OperatorProbe(port)
        begun = await _seen(probe)
        first = await _seen(probe, 0.004, 42.0)
        assert ((first - begun).count, (first - begun).longest_ms) == (2, 42_000)
        second = await _seen(probe, 0.004)
        assert (second - first).longest_ms == 5
        third = await _seen(probe, 11.0)
        assert (third - second).longest_ms == 42_000
        assert (await _seen(probe, 99.5) - third).longest_ms == 99_500
    finally:
        await probes.stop()
