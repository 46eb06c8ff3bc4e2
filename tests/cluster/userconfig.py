"""A kubeconfig of the API server in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.apiserver import ApiServer


def config(folder: Path, server: ApiServer, user: Mapping[str, Any] | None = None) -> Path:
    """Write a kubeconfig of the server. `user`: what it says of the user; None: nothing."""
    raw = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(raw))
    return file
