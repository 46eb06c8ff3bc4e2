"""The fake systemd as a process of its own."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from testbed.eventually import eventually


@pytest.mark.slow
async def test_it_ends_however_many_signals_come(tmp_path: Path) -> None:
    """A reboot may come at any moment, while it looks at its units, or waits to do so."""
    systemd = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "testbed.fakes.systemd", str(tmp_path)
    )
    try:

        async def serves() -> bool:
            return (tmp_path / "run/dbus/system_bus_socket").exists()

        await eventually(serves)
        for _ in range(50_000):
            systemd.send_signal(signal.SIGHUP)
        systemd.terminate()
        async with asyncio.timeout(60):
            assert await systemd.wait() == 0
    finally:
        if systemd.returncode is None:
            systemd.kill()
            await systemd.wait()
