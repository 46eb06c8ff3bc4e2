"""The upstream project of each program: Go package, version, release file.

In: a program's name. Out: the project that makes it. A further program is one entry here and a module below `go/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Project:
    """One upstream project. In texts, `{version}`, `{arch}` and `{name}` stand for what is wanted."""

    name: str
    packages: Mapping[str, str]
    """Go package of each program."""
    site: str
    """Base address of its releases; `variable` names the environment variable of a mirror."""
    variable: str
    file: str
    """Path of the release file below the site."""
    sums: str
    """Path of the file with its SHA-256 sum."""
    member: str = ""
    """Where the program is inside of the file, if that is an archive."""
    version: str = ""
    """The one version that is used; empty: Kubernetes' own."""
    stamps: tuple[str, ...] = ()
    """What the linker sets, `package.variable=text`; without it a program does not know its version."""
    compiler: bool = False
    """Whether a C compiler takes part in the build."""
    version_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments by which a program prints its version, if not `--version`."""

    def module(self, version: str) -> str:
        """Return the name of the folder below `go/`, and of the one in the cache."""
        return self.name if self.version else f"{self.name}-{version}"


_KUBERNETES = Project(
    name="kubernetes",
    packages={
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
    },
    site="https://dl.k8s.io",
    variable="APPORTION_RELEASE_URL",
    file="release/v{version}/bin/linux/{arch}/{name}",
    sums="release/v{version}/bin/linux/{arch}/{name}.sha256",
    stamps=tuple(
        f"k8s.io/{package}/version.gitVersion=v{{version}}" for package in ("component-base", "client-go/pkg")
    ),
    version_arguments={"kubectl": ("version", "--client")},
)
_ETCD = Project(
    name="etcd",
    packages={"etcd": "go.etcd.io/etcd/server/v3", "etcdutl": "go.etcd.io/etcd/etcdutl/v3"},
    site="https://github.com/etcd-io/etcd/releases/download",
    variable="APPORTION_ETCD_RELEASE_URL",
    file="v{version}/etcd-v{version}-linux-{arch}.tar.gz",
    sums="v{version}/SHA256SUMS",
    member="etcd-v{version}-linux-{arch}/{name}",
    version="3.6.14",
    version_arguments={"etcdutl": ("version",)},
)
_CONTAINERD = Project(
    name="containerd",
    packages={
        name: f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    site="https://github.com/containerd/containerd/releases/download",
    variable="APPORTION_CONTAINERD_RELEASE_URL",
    file="v{version}/containerd-{version}-linux-{arch}.tar.gz",
    sums="v{version}/containerd-{version}-linux-{arch}.tar.gz.sha256sum",
    member="bin/{name}",
    version="2.3.5",
    stamps=("github.com/containerd/containerd/v2/version.Version=v{version}",),
    version_arguments={"containerd-shim-runc-v2": ("-v",)},
)
_RUNC = Project(
    name="runc",
    packages={"runc": "github.com/opencontainers/runc"},
    site="https://github.com/opencontainers/runc/releases/download",
    variable="APPORTION_RUNC_RELEASE_URL",
    file="v{version}/runc.{arch}",
    sums="v{version}/runc.sha256sum",
    version="1.3.0",
    compiler=True,  # the part that enters a container's namespaces is written in C
)
_CNI = Project(
    name="cni",
    packages={"loopback": "github.com/containernetworking/plugins/plugins/main/loopback"},
    site="https://github.com/containernetworking/plugins/releases/download",
    variable="APPORTION_CNI_RELEASE_URL",
    file="v{version}/cni-plugins-linux-{arch}-v{version}.tgz",
    sums="v{version}/cni-plugins-linux-{arch}-v{version}.tgz.sha256",
    member="loopback",
    version="1.9.1",
    stamps=("github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v{version}",),
)
_KUEUE = Project(
    name="kueue",
    packages={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    site="https://github.com/kubernetes-sigs/kueue/releases/download",
    variable="APPORTION_KUEUE_RELEASE_URL",
    file="v{version}/kueue-manager-linux-{arch}",  # upstream releases images only: a mirror may have it
    sums="v{version}/kueue-manager-linux-{arch}.sha256",
    version="0.19.0",
    stamps=("sigs.k8s.io/kueue/pkg/version.GitVersion=v{version}",),
)
_HELM = Project(
    name="helm",
    packages={"helm": "helm.sh/helm/v3/cmd/helm"},
    site="https://get.helm.sh",
    variable="APPORTION_HELM_RELEASE_URL",
    file="helm-v{version}-linux-{arch}.tar.gz",
    sums="helm-v{version}-linux-{arch}.tar.gz.sha256sum",
    member="linux-{arch}/helm",
    version="3.22.0",
    # As its Makefile does: the Kubernetes version for which charts are rendered without a cluster is that of client-go.
    stamps=(
        "helm.sh/helm/v3/internal/version.version=v{version}",
        *(
            f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
            for package in ("chartutil", "lint/rules")
            for part, number in (("Major", 1), ("Minor", 37))
        ),
    ),
    version_arguments={"helm": ("version", "--short")},
)
PROJECTS: Final = (_KUBERNETES, _ETCD, _CONTAINERD, _RUNC, _CNI, _KUEUE, _HELM)
_BY_PROGRAM: Final = {program: project for project in PROJECTS for program in project.packages}


def project_of(program: str) -> Project:
    """Return the project that makes a program. Raises KeyError for one that no entry names."""
    return _BY_PROGRAM[program]
