"""A person who has the role `view` and nothing else, and the commands as that person runs them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from testbed.controlplane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
PERSON = "person-who-views"
PROGRAMS = Path(sys.executable).parent


@asynccontextmanager
async def viewing(cluster: ControlPlane) -> AsyncIterator[Path]:
    """Let a person have the role `view`; gives the kubeconfig."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "User", "name": PERSON, "apiGroup": "rbac.authorization.k8s.io"}
    await cluster.api.create(RBAC, {"metadata": {"name": PERSON}, "roleRef": role, "subjects": [subject]})
    try:
        yield cluster.client_kubeconfig(PERSON)
    finally:
        await cluster.api.delete(f"{RBAC}/{PERSON}")


async def run(program: Path, *arguments: str, kubeconfig: Path) -> tuple[int, str, str]:
    """Run a command as the person; returns its exit status and what it wrote."""
    path = os.pathsep.join((str(PROGRAMS), os.environ.get("PATH", "")))
    process = await asyncio.create_subprocess_exec(
        str(program), *arguments,
        env={**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), "COLUMNS": "80"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def answer(kubeconfig: Path, *arguments: str) -> Any:
    """Return what `apportion` says as JSON, whatever its exit status; None while the person has no rights yet."""
    code, out, _ = await run(PROGRAMS / "apportion", *arguments, "-o", "json", kubeconfig=kubeconfig)
    return json.loads(out) if code < 2 else None
