"""A cluster, workloads that were written for device plugins, and `apportion migrate` asked about them."""

import json
from pathlib import Path
from typing import Any

import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.migrate import migrate

app = typer.Typer()
app.command()(migrate)
Json = dict[str, Any]
NVIDIA = "nvidia.com/gpu"
GPU, NPU = "gpu.apportion.dev", "npu.apportion.dev"


def device_class(name: str, driver: str, kind: str, resource: str = "", *, managed: bool = True) -> Json:
    labels = {"apportion.dev/managed": "true"} if managed else {}
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def devices(node: str, driver: str, *attributes: Json) -> Json:
    """Return a slice with a guarded device for each set of attributes."""
    guard = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
    rows = [
        {
            "name": f"device-{number}",
            "taints": [guard],
            "attributes": {key: {"string": value} for key, value in own.items()},
        }
        for number, own in enumerate(attributes)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": rows}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": spec,
    }


def node(name: str, cpu: str = "8") -> Json:
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": allocatable},
    }


def cluster() -> list[Json]:
    """Two GPUs on n1, one on n2; an NPU and a vNPU on n3."""
    npu = {"type": "npu", "model": "910B4"}
    return [
        *(node(name) for name in ("n1", "n2", "n3")),
        device_class(GPU, GPU, "gpu"),
        device_class("mig.apportion.dev", GPU, "mig"),
        device_class(NPU, NPU, "npu"),
        device_class("vnpu.apportion.dev", NPU, "vnpu"),
        devices("n1", GPU, {"type": "gpu"}, {"type": "gpu"}),
        devices("n2", GPU, {"type": "gpu"}, {"type": "mig", "profile": "1g.10gb+me"}),
        devices("n3", NPU, npu, {**npu, "type": "vnpu", "template": "vir05_1c_8g"}),
    ]


def container(name: str = "main", **limits: str) -> Json:
    named = {"gpu": NVIDIA}
    return {
        "name": name,
        "image": "none",
        "resources": {"limits": {named.get(k, k): v for k, v in limits.items()}},
    }


def spec(*containers: Json, **more: Any) -> Json:
    return {"containers": list(containers), **more}


def workload(kind: str, name: str, pod: Json, **more: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        "spec": {**more, "template": {"spec": pod}},
    }


def ask(tmp_path: Path, *workloads: Json, output: str = "json", world: list[Json] | None = None) -> Result:
    """Run the command on workloads and a cluster in files."""
    for name, found in (("workloads", workloads), ("cluster", world or cluster())):
        (tmp_path / name).write_text(yaml.safe_dump_all(found))
    options = ["--dry-run", "-f", str(tmp_path / "workloads"), "--world", str(tmp_path / "cluster")]
    return CliRunner().invoke(app, [*options, "-o", output], env={"COLUMNS": "200"})


def rows(result: Result) -> list[Json]:
    found: list[Json] = json.loads(result.stdout)["workloads"]
    return found
