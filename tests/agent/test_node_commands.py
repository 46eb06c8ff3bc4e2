"""`apportion node`, as an administrator types it: on simulated cards, on the fake driver, beside a running agent."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from typer.testing import CliRunner

from apportion import __main__ as program
from apportion.agent.devices.stickyerrors import StickyErrors
from testbed.api import Json
from testbed.chaos.agentpool import AgentPool
from testbed.eventually import eventually
from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.places import GPU, H100
from tests.agent.simulatednode import MakeNode, holder

DEVICE = "gpu-0-mig-1g10gb-19-3"


async def _apart(pool: AgentPool, said: Path, environment: Mapping[str, str], words: Sequence[str]) -> str:
    """Run `apportion node ...` in a process of its own; returns what it says."""
    code = await pool.start(command="node", arguments=words, environment=environment, log=said).exited
    text = _taken(said)
    assert code == 0, text
    return text


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _taken(file: Path) -> str:
    text = file.read_text()
    file.unlink()
    return text


class Shell:
    """A shell on a node with simulated cards."""

    def __init__(self, folder: Path, node: str = "node-a", **simulation: Any) -> None:
        self.folder = folder
        self.node = node
        self.file = folder / "node.yaml"
        if not self.file.exists():
            self.file.write_text(yaml.safe_dump(simulation), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """What the shell has set."""
        return {
            "NODE_NAME": self.node,
            "BACKEND": "simulated",
            "SIMULATION": str(self.file),
            "PLUGINS_DIR": str(self.folder / "p"),
            "CDI_DIR": str(self.folder / "cdi"),
            "STATE_DIR": str(self.folder / "state"),
            "RUN_DIR": str(self.folder / "run"),
            "COLUMNS": "250",
        }

    def run(self, *words: str, status: int = 0) -> str:
        """Run `apportion node ...`; returns what it says."""
        done = CliRunner().invoke(program.app, ["node", *words], env=self.environment)
        assert done.exit_code == status, done.output
        assert "Traceback" not in done.output
        return done.stdout if words[-1] == "json" else done.output

    async def apart(self, pool: AgentPool, *words: str) -> None:
        """Run it in a process of its own, as beside a running agent."""
        await _apart(pool, self.folder / "said", self.environment, words)

    def json(self, *words: str) -> Json:
        """Run with `-o json`; returns the answer."""
        found: Json = json.loads(self.run(*words, "-o", "json"))
        return found

    def claim(
        self, *devices: str, name: str = "mine", driver: str = GPU, shares: Sequence[Json] = ()
    ) -> Path:
        """Write an allocated claim, as kubectl would; with `shares` it has that much of each device, beside others."""
        results = [
            {"request": f"r{n}", "driver": driver, "pool": self.node, "device": device}
            | ({"shareID": str(uuid.uuid4()), "consumedCapacity": shares[n]} if shares else {})
            for n, device in enumerate(devices)
        ]
        requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "any"}} for n, _ in enumerate(devices)]
        raw = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "team", "name": name, "uid": str(uuid.uuid4())},
            "spec": {"devices": {"requests": requests}},
            "status": {"allocation": {"devices": {"results": results}}},
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(raw), encoding="utf-8")
        return path

    def hardware(self) -> list[Json]:
        """Return the partitions that exist."""
        state: Json = json.loads(self.file.with_name("node.yaml.state.json").read_text())
        found: list[Json] = state["partitions"]
        return found


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Let other tests log as they did: the command is meant for a process of its own."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Give a shell on a node with two GPUs, an NPU and a NIC."""
    nics = [{"name": "mlx5-0", "pcieRoot": "pci0000:10", "numaNode": 0}]
    return Shell(tmp_path, cards=[H100 | {"count": 2}, {"model": "910B4"}], nics=nics)


def test_discover_shows_every_card(shell: Shell) -> None:
    """A row for people, everything for programs."""
    text = shell.run("discover")
    assert "NVIDIA H100 80GB HBM3" in text
    assert "1g.10gb x7" in text
    cards = {card["name"]: card for card in shell.json("discover")["cards"]}
    assert set(cards) == {"gpu-0", "gpu-1", "npu-0", "nic-mlx5-0"}
    assert cards["gpu-0"]["health"] == "Healthy"
    assert cards["gpu-0"]["attributes"]["architecture"] == "Hopper"
    assert DEVICE in cards["gpu-0"]["devices"]
    assert {"start": 3, "size": 1} in cards["gpu-0"]["profiles"][0]["placements"]
    assert not (shell.folder / "state").exists()


@pytest.mark.slow
def test_a_claim_from_a_file_is_prepared_and_freed(shell: Shell) -> None:
    """Cut, injected, in the journal; freed by file, and nothing is left."""
    claim = shell.claim(DEVICE, "gpu-1")
    found = shell.json("prepare", "--claim-file", str(claim))
    assert [row["device"] for row in found["devices"]] == [DEVICE, "gpu-1"]
    (live,) = shell.hardware()
    cdi = json.loads(Path(found["devices"][0]["file"]).read_text())
    assert f"APPORTION_R0_UUID={live['uuid']}" in cdi["devices"][0]["containerEdits"]["env"]
    listed = shell.json("partitions")
    assert listed["partitions"][0]["claims"] == ["team/mine"]
    assert [row["step"] for row in listed["claims"]] == ["Prepared"]
    assert live["uuid"] in shell.run("partitions")
    repeated = shell.json("prepare", "--claim-file", str(claim))
    assert (repeated, shell.hardware()) == (found, [live])
    freed = shell.json("unprepare", "--claim-file", str(claim))
    assert freed["released"] == [DEVICE, "gpu-1"]
    assert shell.hardware() == []
    assert list((shell.folder / "cdi").iterdir()) == []
    assert shell.json("partitions")["claims"] == []
    assert "was not prepared here" in shell.run("unprepare", "--uid", found["uid"])


@pytest.mark.slow
def test_a_device_in_use_is_refused_with_its_holder(shell: Shell) -> None:
    """By the journal, as for kubelet; nothing of the second claim stays."""
    shell.run("prepare", "--claim-file", str(shell.claim(DEVICE)))
    said = shell.run("prepare", "--claim-file", str(shell.claim("gpu-0", name="whole")), status=1)
    assert "error: device gpu-0 is held by ResourceClaim team/mine" in said
    assert [row["claim"] for row in shell.json("partitions")["claims"]] == ["team/mine"]


def test_a_partition_made_by_hand_is_shown_as_such(tmp_path: Path) -> None:
    """Nobody of ours owns it, and its place cannot be cut."""
    foreign = {"card": "gpu-0", "profile": "1g.10gb", "start": 3}
    shell = Shell(tmp_path, cards=[H100], foreign=[foreign])
    assert "made by hand" in shell.run("partitions")
    assert shell.json("partitions")["partitions"][0]["owner"] == "foreign"
    said = shell.run("prepare", "--claim-file", str(shell.claim(DEVICE)), status=1)
    assert "NoRoom" in said
    assert len(shell.hardware()) == 1
    # Nobody would come to unprepare it.
    assert shell.json("partitions")["claims"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "Pod"}, "kind: the file has a Pod"),
        ({"status": {}}, "status.allocation: ResourceClaim team/mine is not allocated"),
        ({"metadata": {"namespace": "team", "name": "mine"}}, "metadata.uid: it is missing"),
        ({"spec": []}, "spec"),
    ],
)
def test_a_file_that_cannot_work_is_reported_by_field(shell: Shell, change: Json, said: str) -> None:
    """Exit status 2, and one sentence."""
    path = shell.claim(DEVICE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert said in shell.run("prepare", "--claim-file", str(path), status=2)


@pytest.mark.slow
def test_what_is_not_there_is_reported_without_a_trace(shell: Shell) -> None:
    """Files, options, devices, claims on other nodes, a journal that is none."""
    assert "No such file" in shell.run("prepare", "--claim-file", "nowhere.json", status=2)
    assert "give either" in shell.run("unprepare", status=2)
    assert "there are table and json" in shell.run("discover", "-o", "xml", status=2)
    assert "this node has no card gpu-9; it has gpu-0" in shell.run("recover", "gpu-9", status=2)
    assert "had no mark" in shell.run("recover", "gpu-0")
    assert "unknown backend" in shell.run("--backend", "magic", "discover", status=2)
    stray = shell.claim("gpu-9")
    assert "does not exist on this node" in shell.run("prepare", "--claim-file", str(stray), status=1)
    elsewhere = Shell(shell.folder, node="node-b")
    assert "which is not on node node-b" in elsewhere.run("prepare", "--claim-file", str(stray), status=2)
    (shell.folder / "state").mkdir(exist_ok=True)
    for name in ("journal.db-wal", "journal.db-shm"):
        (shell.folder / "state" / name).unlink(missing_ok=True)
    (shell.folder / "state/journal.db").write_text("this is no journal" * 99)
    assert "cannot be read" in shell.run("partitions", status=2)


@pytest.mark.slow
async def test_the_same_on_nvidias_library(agent_pool: AgentPool, tmp_path: Path) -> None:
    """Found below the host's root, as in the agent's container; MIG mode goes on and off with the partition."""
    fake = FakeNvml.create(tmp_path / "nvml", ["H100-80GB"])
    root = lay_out(fake, tmp_path / "root")
    boot = _boot()
    claim = Shell(tmp_path).claim("gpu-0-mig-3g40gb-9-4")
    environment = fake.environment | {
        "NODE_NAME": "node-a",
        "HOST_ROOT": str(root),
        "PLUGINS_DIR": str(tmp_path / "p"),
        "CDI_DIR": str(tmp_path / "cdi"),
        "STATE_DIR": str(tmp_path / "state"),
    }

    async def run(*words: str) -> Json:
        said = await _apart(agent_pool, tmp_path / "said", environment, (*words, "-o", "json"))
        # The program's log is before its answer.
        found: Json = json.loads(said[said.index("{\n") :])
        return found

    (card,) = (await run("discover"))["cards"]
    assert card["attributes"]["driverVersion"] == "570.86.15"
    assert "no libcuda.so.1" in card["warning"]
    await run("prepare", "--claim-file", str(claim))
    (live,) = fake.instances()
    assert (live.profile, live.start) == ("3g.40gb", 4)
    assert (await run("partitions"))["partitions"][0]["uuid"] == live.compute[0].uuid
    await run("unprepare", "--claim-file", str(claim))
    assert (fake.instances(), fake.mode(0)) == ((), (False, False))
    StickyErrors(tmp_path / "state" / "sick", boot).add(card["uuid"], "XID 62")
    assert (await run("discover"))["cards"][0]["health"] == "Sick"
    assert await run("recover", "gpu-0") == {
        "card": "gpu-0",
        "uuid": card["uuid"],
        "marked": True,
        "reason": "XID 62",
    }
    assert (await run("discover"))["cards"][0]["health"] == "Healthy"


async def test_a_running_agent_respects_what_was_prepared_by_hand(
    make_node: MakeNode, agent_pool: AgentPool, namespace: str
) -> None:
    """It taints the device, removes nothing, refuses others; after unprepare everything is free."""
    async with make_node(cards=[H100]) as node, node.agent(files_interval=0.1):
        await eventually(node.devices)
        shell = Shell(node.folder, node.name)
        file = shell.claim(DEVICE)

        def keys(devices: dict[str, Json]) -> list[str]:
            return [taint["key"] for taint in devices.get(DEVICE, {}).get("taints", ())]

        await shell.apart(agent_pool, "prepare", "--claim-file", str(file))
        await eventually(node.devices, lambda found: "apportion.dev/held" in keys(found))
        other = await node.claim(namespace, "other", DEVICE)
        await node.partition(DEVICE, "1g.10gb", holder=holder(other))
        said = await node.prepared(other)
        assert "is held by ResourceClaim team/mine" in said
        assert len(node.hardware()) == 1
        assert len(node.cdi()) == 1
        await shell.apart(agent_pool, "unprepare", "--claim-file", str(file))
        await node.phase(DEVICE, "Ready")
        assert await node.prepared(other) == ""


async def test_a_running_agent_leaves_a_claim_alone_that_is_half_done_by_hand(
    make_node: MakeNode, agent_pool: AgentPool
) -> None:
    """Its workers see a partition that no object wants; the journal says whose it is before it is cut."""
    second = DEVICE.replace("gpu-0", "gpu-1")
    async with (
        make_node(cards=[H100 | {"count": 2}], faults={"createDelay": 0.7}) as node,
        node.agent(),
    ):
        shell = Shell(node.folder, node.name)
        work = asyncio.create_task(
            shell.apart(agent_pool, "prepare", "--claim-file", str(shell.claim(DEVICE, second)))
        )
        sick: list[str] = []
        while not work.done():
            # Every change makes every worker look at its card.
            sick = [] if sick else ["gpu-0"]
            with node.switchboard() as state:
                state["faults"]["sick"] = sick
            await asyncio.sleep(0.15)
        await work
        assert sorted(live["card"] for live in node.hardware()) == ["gpu-0", "gpu-1"]
