"""Kueue beside the product: the real controller as a process, its webhooks reached by address, its own certificate.

In: a control plane, the path of the program, the mapping of DeviceClasses to names in quotas. Out: a Kueue that admits Jobs. Its CRDs and
webhook configurations are those of its Go module, which the build of the program has brought.
"""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testbed.binaries.gobuild import module_folder
from testbed.certificates import Authority
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.ports import free_ports
from testbed.process import Process
from testbed.readiness import answers, until_ready

PROGRAM = "kueue"
API = "/apis/kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
_MODULE = "sigs.k8s.io/kueue"
_GRACE_SECONDS = 2.0
_BEHIND_OWN_ETC = """
mount -t tmpfs etc /etc && mkdir -p /etc/kueue/metrics && cp -r "$1" /etc/kueue/metrics/certs && shift && exec "$@"
"""
"""Kueue reads the certificate of its metrics in /etc/kueue, and no setting says otherwise: the program has an /etc of its own."""
_SERVED = ("kueue-x-k8s-io", "batch-v1-job")
"""Webhooks that a Kueue with the integration `batch/job` serves, by a part of their paths."""


class Kueue:
    """`async with Kueue(cluster, program, classes):` installs and starts it, and ends it; what is installed stays."""

    def __init__(self, cluster: ControlPlane, program: Path, classes: Mapping[str, Sequence[str]]) -> None:
        """`classes`: names of DeviceClasses by the resource that a ClusterQueue's quota calls them."""
        self.cluster = cluster
        self._program = program
        self._classes = classes
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        """Install and start it; returns once its webhooks answer. Raises Unavailable: its Go module is missing."""
        source = await module_folder(PROGRAM, _MODULE)
        folder = self.cluster.folder / "kueue"
        folder.mkdir()
        authority = Authority(folder / "certificates")
        pair = authority.serving()
        (folder / "certificates" / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (folder / "certificates" / "tls.key").write_bytes(pair.key.read_bytes())
        webhook, health = free_ports(2)
        configuration = folder / "configuration.yaml"
        configuration.write_text(
            yaml.safe_dump(self._configuration(folder / "certificates", webhook, health))
        )
        crds = source / "config/components/crd/bases"
        await self.cluster.kubectl("apply", "--server-side", "-f", str(crds))
        await self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(crds))
        await self.cluster.kubectl("create", "namespace", NAMESPACE)
        self._process = Process.start(
            PROGRAM,
            [
                *(
                    "unshare",
                    "--map-root-user",
                    "--mount",
                    "sh",
                    "-c",
                    _BEHIND_OWN_ETC,
                    "sh",
                    folder / "certificates",
                ),
                *(self._program, "--config", configuration, "--feature-gates=VisibilityOnDemand=false"),
            ],
            self.cluster.log_path(PROGRAM),
            environment={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(folder),
                "KUBECONFIG": str(self.cluster.kubeconfig),
            },
        )
        try:
            await until_ready(self._process, lambda: answers(f"http://127.0.0.1:{health}/readyz"))
            webhooks = source / "config/components/webhook/manifests.yaml"
            for found in _reached(webhooks, webhook, authority.certificate):
                await self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(found))
            await eventually(self._serves)
        except BaseException:
            await self._process.stop(_GRACE_SECONDS)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if self._process is not None:
            await self._process.stop(_GRACE_SECONDS)

    async def make_queue(self, name: str, quota: Mapping[str, int]) -> None:
        """Make a ClusterQueue of one flavor, for LocalQueues of all namespaces. `quota`: by resource, cpu and memory aside."""
        flavor: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"}
        await self.cluster.api.create(f"{API}/resourceflavors", {**flavor, "metadata": {"name": name}})
        amounts = {"cpu": 1000, "memory": "1Ti", **quota}
        resources = [{"name": each, "nominalQuota": amount} for each, amount in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": name, "resources": resources}]}
        await self.cluster.api.create(
            f"{API}/clusterqueues",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ClusterQueue",
                "metadata": {"name": name},
                "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
            },
        )

    async def let_in(self, namespace: str, queue: str) -> None:
        """Make a LocalQueue of a ClusterQueue, of the same name, in a namespace."""
        await self.cluster.api.create(
            f"{API}/namespaces/{namespace}/localqueues",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": queue},
                "spec": {"clusterQueue": queue},
            },
        )

    async def usage(self, queue: str, resource: str) -> int:
        """Return how much of a resource the admitted workloads of a ClusterQueue use, as its status says."""
        found = await self.cluster.api.get(f"{API}/clusterqueues/{queue}")
        return sum(
            int(each["total"])
            for flavor in found.get("status", {}).get("flavorsUsage", ())
            for each in flavor["resources"]
            if each["name"] == resource
        )

    def _configuration(self, certificates: Path, webhook: int, health: int) -> dict[str, Any]:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(certificates)},
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "integrations": {"frameworks": ["batch/job"]},
            "resources": {
                "deviceClassMappings": [
                    {"name": name, "deviceClassNames": list(classes)}
                    for name, classes in self._classes.items()
                ]
            },
        }

    async def _serves(self) -> bool:
        """Say whether a Job with a queue would be held back: the API server knows the webhooks, and they answer."""
        container = {"name": "main", "image": "none"}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": "probe-", "labels": {"kueue.x-k8s.io/queue-name": "probe"}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
        try:
            made = await self.cluster.api.create("/apis/batch/v1/namespaces/default/jobs", job, dryRun="All")
        except ApiError:
            return False
        return bool(made["spec"]["suspend"])


def _reached(manifests: Path, port: int, authority: Path) -> list[dict[str, Any]]:
    """Return the configurations of the webhooks that are served, which name an address instead of a Service."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    found: list[dict[str, Any]] = list(yaml.safe_load_all(manifests.read_text()))
    for each in found:
        each["metadata"]["name"] = f"kueue-{each['metadata']['name']}"
        paths = {webhook["name"]: webhook["clientConfig"]["service"]["path"] for webhook in each["webhooks"]}
        each["webhooks"] = [
            {
                **webhook,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}{paths[webhook['name']]}",
                    "caBundle": bundle,
                },
            }
            for webhook in each["webhooks"]
            if any(part in paths[webhook["name"]] for part in _SERVED)
        ]
    return found
