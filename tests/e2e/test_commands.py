"""The commands that only read, for a person with the role `view`, on the installation that other tests use."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testbed.binaries import Binaries
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import GPU, PATIENCE, Tenant, claim, pod, request
from tests.e2e.viewer import PROGRAMS, run, viewing


@pytest.fixture
async def person(installation: Installation) -> AsyncIterator[Path]:
    """Give the kubeconfig of a person who has the role `view` and nothing else."""
    async with viewing(installation.cluster) as kubeconfig:
        yield kubeconfig


async def test_a_person_with_the_view_role_sees_asks_and_takes_a_snapshot_home(
    installation: Installation, team: Tenant, person: Path, tmp_path: Path, binaries: Binaries
) -> None:
    """`kubectl apportion` and `apportion` answer live as they do offline; what they say would fit, the operator serves."""
    await team.make(claim("held", request(GPU)))
    await team.make(pod("holder", "held"))
    await team.running("holder")
    [device] = await team.allocated("held")
    node, name = device.split("/")
    await team.make(claim("much", request(GPU, count=9)))
    await team.make(pod("greedy", "much"))
    await team.event("much", "NotAllocated")
    kubectl = binaries["kubectl"]

    async def asked(*arguments: str, status: int = 0) -> Any:
        code, out, err = await run(kubectl, "apportion", *arguments, "-o", "json", kubeconfig=person)
        assert (code, err) == (status, ""), out
        return json.loads(out)

    # RBAC's aggregation is a controller's work.
    await eventually(
        lambda: run(kubectl, "apportion", "free", kubeconfig=person),
        lambda found: found[0] == 0,
        within=PATIENCE,
    )
    who = await asked("who", f"{node}/{name}")
    assert [(row["claim"], row["pods"]) for row in who["holders"]] == [
        (f"{team.namespace}/held", [f"{team.namespace}/holder"])
    ]
    card = next(
        each for each in (await asked("status"))["cards"] if each["device"].endswith(f"{node}/{name}")
    )
    assert [*card["holders"].values()] == [f"{team.namespace}/held"]
    assert (await asked("why", "pod", f"{team.namespace}/holder"))["devices"][0]["node"] == node
    waits = await asked("why", "claim", "much", "-n", team.namespace, status=1)
    assert waits["reason"] == "NotAllocated"
    # Where the reason has changed, the Event says so seconds later.
    await team.event("much", "NotAllocated", f": {waits['message'].split(': ')[1]}")

    (tmp_path / "claims.json").write_text(json.dumps(claim("c", request(GPU, count=2))))

    async def fits(*options: str) -> Any:
        return await asked("fit", "-f", str(tmp_path / "claims.json"), "-n", team.namespace, *options)

    async def snapshot() -> tuple[Any, Any] | None:
        """Take a snapshot; returns what is answered live, None where something changed: partitions that were idle go in their own time."""
        before = await asked("free")
        code, world, _ = await run(PROGRAMS / "apportion", "snapshot", kubeconfig=person)
        assert code == 0
        (tmp_path / "world.json").write_text(world)
        live = await fits()
        return (before, live) if await asked("free") == before else None

    live = await eventually(snapshot)
    assert live is not None
    offline = ("--world", str(tmp_path / "world.json"))
    assert (await asked("free", *offline), await fits(*offline)) == live
    assert live[1]["asked"][0]["most"] >= 1
    await team.make(claim("c", request(GPU, count=2), annotations={"apportion.dev/allocation": "Immediate"}))
    assert len(await team.allocated("c")) == 2


async def test_a_person_without_rights_is_refused_in_one_sentence(installation: Installation) -> None:
    """The server's own words, and exit status 2."""
    nobody = installation.cluster.client_kubeconfig("person-without-rights")
    code, out, err = await run(PROGRAMS / "apportion", "status", kubeconfig=nobody)
    assert (code, out) == (2, "")
    assert "cannot list resource" in err
    assert "Traceback" not in err
