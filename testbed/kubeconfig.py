"""Kubeconfig files.

In: a server and a credential. Out: a file that kubectl, kopf and the testbed's own client read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credential of an API server: client certificate and key, or a token."""

    server: str
    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = None

    def write(self, path: Path) -> Path:
        """Write the kubeconfig; readable only by its owner, since it is a credential."""
        user: dict[str, str] = {}
        if self.certificate is not None and self.key is not None:
            user |= {"client-certificate": str(self.certificate), "client-key": str(self.key)}
        if self.token is not None:
            user["token"] = self.token
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": self.server, "certificate-authority": str(self.authority)},
                }
            ],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
            "current-context": "testbed",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path


def read(path: Path) -> Access:
    """Read a kubeconfig that `Access.write` wrote."""
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    certificate, key = user.get("client-certificate"), user.get("client-key")
    return Access(
        server=cluster["server"],
        authority=Path(cluster["certificate-authority"]),
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        token=user.get("token"),
    )
