"""What `apportion why` says of a world, and what the operator's Events say of it."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.cluster.client import Client
from tests.cli.worlds import Cluster

Json = dict[str, Any]


def why(tmp_path: Path, cluster: Cluster, what: str, name: str) -> Json:
    """Return the answer about a pod or claim of namespace `team`; the exit status says whether it is served."""
    path = str(cluster.write(tmp_path / "w"))
    result = CliRunner().invoke(app, ["why", what, f"team/{name}", "--world", path, "-o", "json"])
    found: Json = json.loads(result.stdout)
    assert result.exit_code == (0 if found["served"] else 1)
    return found


def events(cluster: Cluster, client: Client, name: str, *, apart: float = 0.0) -> list[tuple[str, str]]:
    """Return reason and text of the operator's Events about objects of a name, after two passes so many seconds `apart`."""
    cycle = cluster.cycle(client)
    cycle.once()
    cluster.clock.now += apart
    cycle.once()
    return list(dict.fromkeys((reason, text) for about, reason, text in cluster.messages if about == name))
