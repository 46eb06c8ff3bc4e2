"""What kubelet and Prometheus are answered."""

import asyncio
import threading
import time
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apportion.errors import ApportionError
from apportion.probes import Probes
from testbed.ports import free_ports


async def test_a_probe_says_what_is_wrong_and_metrics_are_computed_when_they_are_asked_for() -> None:
    """503 for what is wrong, 200 for what is well; of the registry that was given, and of no other."""
    (port,) = free_ports(1)
    registry = CollectorRegistry()
    asked = Gauge("asked", "How often metrics were asked for.", registry=registry)

    async def refresh() -> None:
        asked.inc()

    wrong: list[str] = ["pods are not listed"]
    probes = Probes(port, ready=lambda: wrong[0] if wrong else None, registry=registry, refresh=refresh)
    await probes.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def answer(path: str) -> tuple[int, str]:
            async with session.get(path) as found:
                return found.status, await found.text()

        assert await answer("/healthz") == (200, "ok")
        assert await answer("/readyz") == (503, "pods are not listed")
        wrong.clear()
        assert await answer("/readyz") == (200, "ok")
        await answer("/metrics")
        status, text = await answer("/metrics")
        assert (status, text.splitlines()[-1]) == (200, "asked 2.0")
        assert "apportion_" not in text
    await probes.stop()


async def test_the_text_of_metrics_is_made_beside_the_event_loop_one_at_a_time() -> None:
    """That of hundreds of namespaces and quotas takes a tenth of a second, in which no claim was decided about; those who ask at once are answered one after the other."""
    (port,) = free_ports(1)
    registry = CollectorRegistry()
    threads: list[int] = []
    most, now = 0, 0

    class Slow(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            nonlocal most, now
            threads.append(threading.get_ident())
            now += 1
            most = max(most, now)
            time.sleep(0.01)
            now -= 1
            yield GaugeMetricFamily("slow", "Takes its time.", value=1)

    async def refresh() -> None:
        await asyncio.sleep(0)

    registry.register(Slow())
    threads.clear()
    probes = Probes(port, ready=lambda: None, registry=registry, refresh=refresh)
    await probes.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def answer() -> str:
            async with session.get("/metrics") as found:
                return await found.text()

        texts = await asyncio.gather(*(answer() for _ in range(5)))
    await probes.stop()
    assert [text.splitlines()[-1] for text in texts] == ["slow 1.0"] * 5
    assert len(threads) == 5
    assert threading.get_ident() not in threads
    assert most == 1


async def test_a_port_that_somebody_else_has_is_named() -> None:
    """The process ends with one line, as for every bad option; without a port nothing is served, and nothing fails."""
    (port,) = free_ports(1)
    first, second, none = (Probes(each, ready=lambda: None) for each in (port, port, 0))
    await none.start()
    await first.start()
    with pytest.raises(ApportionError, match=rf"--health-port: port {port}: Address already in use"):
        await second.start()
    for each in (first, second, none):
        await each.stop()
