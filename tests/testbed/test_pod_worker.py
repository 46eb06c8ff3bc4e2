"""One pod's worker of the fake kubelet, against a real API server."""

import asyncio
from pathlib import Path

from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.kubelet.claims import Claims
from testbed.kubelet.plugins import Plugins
from testbed.kubelet.podrecord import PodRecord
from testbed.kubelet.podworker import PodWorker


async def test_a_worker_that_is_cancelled_at_the_moment_when_it_is_woken_ends(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """Else a node that stops while a plugin leaves waits for it for ever."""

    async def wipe(_: str) -> bool:
        return True

    plugins = Plugins(tmp_path, wipe=wipe, wiping_delay=1.0, changed=lambda: None)
    record = PodRecord(namespace, "user", "its-uid", 0.0)
    worker = PodWorker(
        record,
        node="some-node",
        api=control_plane.api,
        claims=Claims(plugins, tmp_path / "claims.json"),
        cdi=tmp_path,
        stop_seconds=float,
        address=lambda: "10.0.0.1",
    )
    worker.observe(
        {
            "metadata": {"namespace": namespace, "name": "user", "uid": "its-uid"},
            "spec": {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]},
        }
    )
    running = asyncio.create_task(worker.run())

    async def problems() -> list[str]:
        return record.problems

    assert "does not exist" in (await eventually(problems))[0]
    await asyncio.sleep(1.0)  # by then it waits for its next try most of the time
    worker.wake()
    running.cancel()
    await asyncio.wait([running], timeout=60)
    assert running.cancelled()
