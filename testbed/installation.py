"""apportion installed on a control plane as in production, but without containers.

In: a control plane, descriptions of nodes. Out: the manifests applied, the operator and one agent a node running as
processes with their own ServiceAccount tokens (the agent's bound to its node) and the rights of the manifests.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.faultyproxy import FaultyProxy
from testbed.kubelet import FakeKubelet
from testbed.node import NodeShape
from testbed.nodes import simulated_nodes
from testbed.ports import free_ports
from testbed.supervised import Supervised

NAMESPACE = "apportion-system"
REPOSITORY = Path(__file__).resolve().parent.parent
MANIFESTS = REPOSITORY / "manifests"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "apportion.dev"


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node of the installation."""

    name: str
    simulation: Mapping[str, Any]
    """Content of the agent's simulation file: which cards the node has."""
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] | None = None
    lay_out: Callable[[Path], Path] | None = None
    """Puts the host's files below a folder, and returns the configuration of generic devices that finds them; None: there are none."""

    def shape(self) -> NodeShape:
        """Return the node as the fake kubelet registers it."""
        labels = {"kubernetes.io/hostname": self.name, **self.labels}
        return (
            NodeShape(self.name, labels, self.resources) if self.resources else NodeShape(self.name, labels)
        )


class Installation:
    """`async with Installation(cluster, nodes) as installation:` installs and starts everything, and ends it again."""

    def __init__(
        self,
        cluster: ControlPlane,
        nodes: Sequence[SimulatedNode],
        *,
        operators: int = 1,
        operator_options: Sequence[str] = (),
        agent_options: Sequence[str] = (),
        manifests: Path = MANIFESTS,
        kubelet_options: Mapping[str, Any] | None = None,
        agents: bool = True,
        proxies: Sequence[FaultyProxy] = (),
        agent_proxy: FaultyProxy | None = None,
        code: Path = REPOSITORY,
        web: bool = False,
    ) -> None:
        """`proxies` stand before the API server, one for each operator; `agent_proxy` does for all agents; `web`: the operators serve the web page."""
        self.cluster = cluster
        self.nodes = {node.name: node for node in nodes}
        self.operators: list[Supervised] = []
        self.operator_ports: list[int] = []
        """Where each operator answers /healthz, /readyz and /metrics."""
        self.web_ports: list[int] = []
        """Where each operator's web page is, if there are any."""
        self.agents: dict[str, Supervised] = {}
        self.kubelets: dict[str, FakeKubelet] = {}
        self.code = code
        """The repository, or a copy of an older one, whose operator and agents are started from now on."""
        self._count = operators
        self._operator_options = tuple(operator_options)
        self._agent_options = tuple(agent_options)
        self._manifests = manifests
        self._kubelet_options = dict(kubelet_options or {})
        self._run_agents = agents
        self._proxies = tuple(proxies)
        self._agent_proxy = agent_proxy
        self._web = web
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Install and start; returns once every agent has published its slices."""
        try:
            await self.apply()
            self.kubelets = await self._stack.enter_async_context(
                simulated_nodes(
                    self.cluster, [node.shape() for node in self.nodes.values()], **self._kubelet_options
                )
            )
            for index in range(self._count):
                await self.start_operator(index)
            if self._run_agents:
                await asyncio.gather(*(self.start_agent(name) for name in self.nodes))
                await self.published()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes and take the nodes away; what is installed stays with the control plane."""
        await self._stack.aclose()

    async def apply(self) -> None:
        """Apply the manifests, and wait until the CRDs serve."""
        await install(self.cluster, self._manifests)

    def state(self, node: str) -> dict[str, Any]:
        """Return the live state of a node's simulated hardware."""
        path = self.folder(node) / "simulation.yaml.state.json"
        found: dict[str, Any] = yaml.safe_load(path.read_text())
        return found

    @property
    def logs(self) -> list[Path]:
        """The log of each operator and agent."""
        return [program.log for program in (*self.operators, *self.agents.values())]

    def hardware(self, node: str) -> list[dict[str, Any]]:
        """Return the partitions that exist in a node's simulated hardware."""
        found: list[dict[str, Any]] = self.state(node)["partitions"]
        return found

    async def start_agent(self, name: str, instance: str = "") -> Supervised:
        """Start a node's agent with a token that is bound to its node; one beside another needs an `instance` of its own."""
        node, folder = self.nodes[name], self.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        simulation = folder / "simulation.yaml"
        simulation.write_text(yaml.safe_dump(dict(node.simulation)))
        token = await self._agent_token(name)
        kubelet = self.kubelets[name]
        command: list[str | Path] = [
            *(sys.executable, "-m", "apportion", "agent", "--node-name", name, "--backend", "simulated"),
            *("--simulation", simulation, "--plugins-dir", kubelet.root / "plugins"),
            *("--registry-dir", kubelet.registry, "--cdi-dir", kubelet.cdi, "--state-dir", folder / "state"),
            *("--run-dir", folder / "run", "--kubeconfig", token),
            *("--log-format", "console", "--health-port", "0"),
            *(("--instance", instance) if instance else ()),
            *self._agent_options,
        ]
        if node.lay_out is not None:
            host = folder / "host"
            command += ["--generic-devices", node.lay_out(host), "--host-root", host]
        agent = Supervised(
            f"agent-{name}",
            command,
            self.cluster.log_path(f"agent-{name}"),
            environment=product_environment(self.code),
        )
        agent.start()
        self.agents[name] = agent
        self._stack.push_async_callback(agent.stop)
        return agent

    async def renew_agent(self, name: str) -> None:
        """End a node's agent and start it with a token of the Node that is there now: a token ends with the Node that it is bound to."""
        await self._agent_token(name)
        await self.agents[name].stop()
        self.agents[name].start()

    async def _agent_token(self, name: str) -> Path:
        """Return the kubeconfig of a node's agent, with a fresh token."""
        token = await self.cluster.service_account_kubeconfig(NAMESPACE, "apportion-agent", node=name)
        if self._agent_proxy is None:
            return token
        return self._agent_proxy.kubeconfig(self.folder(name) / "proxied.kubeconfig", token)

    async def published(self, within: float = 120.0) -> None:
        """Wait until every node has the slices of all its agents' pools."""

        async def missing() -> set[str]:
            slices, _ = await self.cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")
            have = {each["spec"].get("nodeName") for each in slices}
            # Without cards and without generic devices there is nothing to publish.
            publish = {name for name, node in self.nodes.items() if node.simulation or node.lay_out}
            return publish - have

        await eventually(missing, lambda names: not names, within=within)

    async def start_operator(self, index: int) -> Supervised:
        """Start one more replica of the operator."""
        port, web_port = free_ports(2)
        token = await self.cluster.service_account_kubeconfig(NAMESPACE, "apportion-operator")
        if self._proxies:
            token = self._proxies[index].kubeconfig(self.cluster.folder / f"operator-{index}.proxied", token)
        operator = Supervised(
            f"operator-{index}",
            [
                *(sys.executable, "-m", "apportion", "operator", "--namespace", NAMESPACE),
                *("--kubeconfig", token, "--log-format", "console", "--health-port", str(port)),
                *(("--web-port", str(web_port)) if self._web else ()),
                *self._operator_options,
            ],
            self.cluster.log_path(f"operator-{index}"),
            environment=product_environment(self.code),
        )
        operator.start()
        self.operators.append(operator)
        self.operator_ports.append(port)
        if self._web:
            self.web_ports.append(web_port)
        self._stack.push_async_callback(operator.stop)
        return operator

    def folder(self, node: str) -> Path:
        """Return where a node's agent keeps its simulation and its journal."""
        return self.cluster.folder / "agents" / node


async def install(cluster: ControlPlane, manifests: Path = MANIFESTS) -> None:
    """Apply the manifests to a control plane, and wait until the CRDs serve."""
    # What others applied from the same manifests by `kubectl apply` belongs to them otherwise.
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(manifests))
    await until_served(cluster)


async def until_served(cluster: ControlPlane) -> None:
    """Wait until the kinds of the product can be listed: a CRD that is established may answer 404 or 429 for a moment."""
    crds, _ = await cluster.api.items(_CRDS)
    kinds = [each["spec"]["names"]["plural"] for each in crds if each["spec"]["group"] == _GROUP]
    established = ("--for=condition=Established", "--timeout=60s")
    await cluster.kubectl("wait", *established, *(f"crd/{kind}.{_GROUP}" for kind in kinds))
    for kind in kinds:

        async def served(kind: str = kind) -> bool:
            try:
                await cluster.api.items(f"/apis/{_GROUP}/v1alpha1/{kind}")
            except ApiError:
                return False
            return True

        await eventually(served)


def product_environment(code: Path = REPOSITORY) -> dict[str, str]:
    """Return the environment of operator and agent: what a process needs, and the path of the product in a repository."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
    return {**kept, "PYTHONPATH": str(code / "operator"), "PYTHONUNBUFFERED": "1"}
