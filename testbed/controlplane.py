"""A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from testbed import audit, components
from testbed.api import Api, Json
from testbed.binaries import Binaries, provide
from testbed.certificates import Authority
from testbed.components import ALL, APISERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, Layout, Ports
from testbed.errors import ComponentDiedError, TestbedError
from testbed.kubeconfig import Access
from testbed.ports import free_ports
from testbed.process import Process
from testbed.readiness import answers, until_ready
from testbed.versions import DEFAULT

_GRACE_SECONDS = {ETCD: 3.0, APISERVER: 3.0, CONTROLLER_MANAGER: 1.0, SCHEDULER: 1.0}
_LOOK_SECONDS = 0.05


class ControlPlane:
    """`async with ControlPlane() as cluster:` starts it, waits until it is ready, and ends it in every case.

    `components` may leave out later ones (etcd and kube-apiserver alone are ready in about two seconds).
    `client_qps` None leaves the request rates of controller-manager and scheduler at their defaults. `flags` adds
    arguments per component. `detached` components outlive this process. Without `binaries` they are looked for.
    """

    def __init__(
        self,
        *,
        version: str = DEFAULT,
        components: Sequence[str] = ALL,
        binaries: Binaries | None = None,
        client_qps: int | None = 1000,
        flags: Mapping[str, Sequence[str]] | None = None,
        detached: bool = False,
        console: Console | None = None,
    ) -> None:
        self.version = version
        self._components = tuple(name for name in ALL if name in components)
        self._binaries = binaries
        self._client_qps = client_qps
        self._flags = flags or {}
        self._detached = detached
        self._console = console
        self._processes: dict[str, Process] = {}
        self._commands: dict[str, list[str | Path]] = {}
        self._started = False

    async def __aenter__(self) -> Self:
        """Start every component. Raises MissingBinariesError, ComponentDiedError or NotReadyInTimeError."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every component and delete the data."""
        await self.stop()

    async def start(self) -> None:
        """Start every component and wait until pods can be made. What was started is ended when this fails."""
        if self._binaries is None:
            self._binaries = await provide(
                self.version, [*self._components, "kubectl"], console=self._console
            )
        # A short path: sockets of simulated nodes lie below it, and a socket's path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="apportion-"))
        try:
            self._layout = self._prepare(self._binaries)
            self.api = Api(self._admin)
            await self.api.__aenter__()
            self._started = True
            for name in (ETCD, APISERVER):
                if name in self._components:
                    await self.start_component(name)
            await asyncio.gather(
                *(self.start_component(name) for name in self._components if name not in (ETCD, APISERVER))
            )
            if CONTROLLER_MANAGER in self._components:
                await self.service_account("default", "default")
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End every component, clients before servers, and delete the data; safe to call twice."""
        if self._started:
            self._started = False
            await self.api.__aexit__(None, None, None)
        clients = [name for name in self._processes if name not in (ETCD, APISERVER)]
        await asyncio.gather(*(self.stop_component(name) for name in clients))
        for name in (APISERVER, ETCD):
            await self.stop_component(name)
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    async def start_component(self, name: str) -> None:
        """Start one component (again) and wait until it answers. Does nothing when it runs."""
        running = self._processes.get(name)
        if running is not None and running.running():
            return
        process = Process.start(name, self._commands[name], self._layout.log(name), detached=self._detached)
        self._processes[name] = process
        ports = self._layout.ports
        match name:
            case components.ETCD:
                await until_ready(process, lambda: answers(f"http://127.0.0.1:{ports.etcd}/health"))
            case components.APISERVER:
                await until_ready(process, self._serving)
            case components.CONTROLLER_MANAGER:
                address = f"https://127.0.0.1:{ports.controller_manager}/healthz"
                await until_ready(process, lambda: answers(address))
            case _:
                await until_ready(process, lambda: answers(f"https://127.0.0.1:{ports.scheduler}/healthz"))

    async def stop_component(self, name: str) -> None:
        """End one component and wait until it is gone; the others go on. Does nothing when it does not run."""
        process = self._processes.get(name)
        if process is not None:
            await process.stop(_GRACE_SECONDS[name])
            del self._processes[name]

    def check(self) -> None:
        """Raise ComponentDiedError when a component ended that nobody stopped."""
        for process in self._processes.values():
            if not process.running():
                raise ComponentDiedError(process.name, process.code, process.log)

    @property
    def processes(self) -> Mapping[str, Process]:
        """The components that run, by name."""
        return dict(self._processes)

    @property
    def layout(self) -> Layout:
        """Files and ports."""
        return self._layout

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._layout.server

    @property
    def etcd(self) -> str:
        """Etcd's address, without TLS."""
        return f"http://127.0.0.1:{self._layout.ports.etcd}"

    def log_path(self, component: str) -> Path:
        """Return where a component's output goes."""
        return self._layout.log(component)

    def logs(self, component: str) -> str:
        """Return all that a component has said so far."""
        return self._layout.log(component).read_text(errors="replace")

    def audited(self) -> list[audit.Request]:
        """Return every request so far, with its user and the rule that allowed it."""
        return list(audit.requests(self._layout.audit_log))

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (group `system:masters`: RBAC does not bind it)."""
        return self.folder / "admin.kubeconfig"

    def client_kubeconfig(self, common_name: str, organizations: Sequence[str] = ()) -> Path:
        """Return the kubeconfig of a user known by a client certificate, in these groups."""
        return self._access(common_name, organizations).write(self._place(common_name))

    async def service_account_kubeconfig(
        self,
        namespace: str,
        name: str,
        *,
        node: str | None = None,
        pod: str | None = None,
        seconds: int = 86400,
    ) -> Path:
        """Return the kubeconfig of a ServiceAccount, with a fresh token of TokenRequest.

        A token bound to a `pod` that is assigned to a node, or to a `node`, carries the node's name: requests made with
        it have `authentication.kubernetes.io/node-name` in `userInfo.extra`. Waits for the ServiceAccount. Raises
        ApiError when the node or pod does not exist, and TestbedError for both at once.
        """
        if node is not None and pod is not None:
            raise TestbedError("a token is bound to a node or to a pod, not to both")
        await self.service_account(namespace, name)
        spec: Json = {"expirationSeconds": seconds}
        for kind, bound, path in (
            ("Node", node, f"/api/v1/nodes/{node}"),
            ("Pod", pod, f"/api/v1/namespaces/{namespace}/pods/{pod}"),
        ):
            if bound is not None:
                found = await self.api.get(path)
                uid = found["metadata"]["uid"]
                spec["boundObjectRef"] = {"apiVersion": "v1", "kind": kind, "name": bound, "uid": uid}
        made = await self.api.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        access = Access(self.server, self._authority.certificate, token=made["status"]["token"])
        stem = "-".join(part for part in ("sa", namespace, name, node, pod) if part)
        return access.write(self._place(stem))

    async def service_account(self, namespace: str, name: str) -> Json:
        """Wait for a ServiceAccount and return it; pods can be made only after `default` is there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        async with asyncio.timeout(60):
            while True:
                self.check()
                if (found := await self.api.find(path)) is not None:
                    return found
                await asyncio.sleep(_LOOK_SECONDS)

    async def make_namespace(self, prefix: str = "test", labels: Mapping[str, str] | None = None) -> str:
        """Make a namespace of a new name and wait until pods can be made in it; returns its name."""
        made = await self.api.create(
            "/api/v1/namespaces", {"metadata": {"generateName": f"{prefix}-", "labels": dict(labels or {})}}
        )
        name: str = made["metadata"]["name"]
        if CONTROLLER_MANAGER in self._processes:
            await self.service_account(name, "default")
        return name

    async def drop_namespace(self, name: str) -> None:
        """Delete a namespace; its pods go at once, also those on nodes without a running kubelet."""
        await self.api.delete_all(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
        await self.api.delete(f"/api/v1/namespaces/{name}")

    async def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl, as administrator if no other kubeconfig is given, and return what it prints.

        Raises TestbedError with its message when it fails.
        """
        if self._binaries is None:
            raise TestbedError("kubectl needs a control plane that was started")
        process = await asyncio.create_subprocess_exec(
            self._binaries["kubectl"],
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            f"--cache-dir={self.folder / 'kubectl'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, problems = await process.communicate(stdin.encode() if stdin is not None else None)
        if process.returncode != 0:
            raise TestbedError(f"kubectl {' '.join(arguments)}: {problems.decode().strip()}")
        return out.decode()

    def _prepare(self, binaries: Binaries) -> Layout:
        self._authority = Authority(self.folder / "pki")
        ports = Ports(*free_ports(5))
        server = f"https://127.0.0.1:{ports.apiserver}"

        def config(name: str, common_name: str, *organizations: str) -> Path:
            pair = self._authority.client(common_name, organizations)
            access = Access(server, self._authority.certificate, pair.certificate, pair.key)
            return access.write(self.folder / f"{name}.kubeconfig")

        layout = Layout(
            folder=self.folder,
            ports=ports,
            authority=self._authority.certificate,
            serving=self._authority.serving(),
            service_accounts=self._authority.service_accounts(),
            controller_manager=config(CONTROLLER_MANAGER, "system:kube-controller-manager"),
            scheduler=config(SCHEDULER, "system:kube-scheduler"),
        )
        self._layout = layout
        self._admin = self._access("admin", ["system:masters"])
        self._admin.write(self.kubeconfig)
        for name, arguments in components.commands(layout, client_qps=self._client_qps).items():
            if name in self._components:
                self._commands[name] = [binaries[name], *arguments, *self._flags.get(name, ())]
        return layout

    def _access(self, common_name: str, organizations: Sequence[str]) -> Access:
        pair = self._authority.client(common_name, organizations)
        return Access(self._layout.server, self._authority.certificate, pair.certificate, pair.key)

    def _place(self, stem: str) -> Path:
        folder = self.folder / "kubeconfigs"
        folder.mkdir(exist_ok=True)
        return folder / (stem.replace(":", "-").replace("/", "-") + ".kubeconfig")

    async def _serving(self) -> bool:
        return await self.api.text("/readyz") == "ok"
