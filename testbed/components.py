"""The command lines of the components.

In: the layout of one control plane. Out: the arguments of each component.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import yaml

from testbed.certificates import KeyPair

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"

# The order of starting; it is ended in the reverse order, so that no client outlives its server.
ALL: Final = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER)

# Every request, once, without bodies: user, verb, (sub)resource, and the rule that allowed it.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True, slots=True)
class Ports:
    """One loopback port per server."""

    etcd: int
    etcd_peers: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Files and ports of one control plane."""

    folder: Path
    ports: Ports
    authority: Path
    serving: KeyPair
    service_accounts: KeyPair
    controller_manager: Path
    scheduler: Path

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def etcd_data(self) -> Path:
        """Etcd's folder."""
        return self.folder / "etcd"

    @property
    def etcd_peer(self) -> str:
        """The address by which etcd knows itself as a member."""
        return f"http://127.0.0.1:{self.ports.etcd_peers}"

    @property
    def audit_log(self) -> Path:
        """Where the API server writes one JSON line per request."""
        return self.folder / "audit.log"

    def log(self, component: str) -> Path:
        """Where a component's output goes."""
        return self.folder / f"{component}.log"


def commands(layout: Layout, *, client_qps: int | None) -> Mapping[str, list[str]]:
    """Return the arguments of each component, without the program itself.

    `client_qps` is the request rate of controller-manager and scheduler; None leaves their defaults (20 and 50), with
    which template claims appear for only about ten pods per second.
    """
    return {
        ETCD: _etcd(layout),
        APISERVER: _apiserver(layout),
        CONTROLLER_MANAGER: _controller_manager(layout, client_qps),
        SCHEDULER: _scheduler(layout, client_qps),
    }


def _etcd(layout: Layout) -> list[str]:
    client, peer = f"http://127.0.0.1:{layout.ports.etcd}", layout.etcd_peer
    return [
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync=true",
        "--log-level=warn",
    ]


def _apiserver(layout: Layout) -> list[str]:
    policy = layout.folder / "audit-policy.json"
    policy.write_bytes(orjson.dumps(_AUDIT_POLICY))
    return [
        f"--etcd-servers=http://127.0.0.1:{layout.ports.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports.apiserver}",
        f"--cert-dir={layout.folder}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.authority}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_accounts.certificate}",
        f"--service-account-signing-key-file={layout.service_accounts.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # It taints each new node until node-lifecycle-controller, which is switched off here, takes that back.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",  # the loopback address may not stand in an EndpointSlice
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=2000",
        "--profiling=false",
    ]


def _controller_manager(layout: Layout, client_qps: int | None) -> list[str]:
    rates = [] if client_qps is None else [f"--kube-api-qps={client_qps}", f"--kube-api-burst={client_qps}"]
    return [
        f"--kubeconfig={layout.controller_manager}",
        f"--authentication-kubeconfig={layout.controller_manager}",
        f"--authorization-kubeconfig={layout.controller_manager}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports.controller_manager}",
        f"--root-ca-file={layout.authority}",
        f"--service-account-private-key-file={layout.service_accounts.key}",
        "--use-service-account-credentials=true",
        "--controllers=*,-node-lifecycle-controller",  # made-up nodes send no heartbeats
        "--leader-elect=false",
        "--profiling=false",
        *rates,
    ]


def _scheduler(layout: Layout, client_qps: int | None) -> list[str]:
    connection: dict[str, str | int] = {"kubeconfig": str(layout.scheduler)}
    if client_qps is not None:
        connection |= {"qps": client_qps, "burst": client_qps}
    config = layout.folder / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": connection,
            }
        )
    )
    return [
        f"--config={config}",
        f"--authentication-kubeconfig={layout.scheduler}",
        f"--authorization-kubeconfig={layout.scheduler}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports.scheduler}",
    ]
