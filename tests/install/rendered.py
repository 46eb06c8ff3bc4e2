"""The manifests as kustomize renders them."""

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml

from apportion import __main__ as program
from apportion.settings import DRIVERS
from testbed.binaries import Binaries

ROOT = Path(__file__).parents[2]


def rendered(binaries: Binaries, folder: str) -> list[dict[str, Any]]:
    """Return the objects that `kubectl apply -k FOLDER` would apply."""
    kubectl = binaries["kubectl"]
    return documents(_kustomized(kubectl, folder) if Path(folder).is_absolute() else _ours(kubectl, folder))


def documents(text: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML text; the parser in Python takes ten times as long."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


@cache
def _ours(kubectl: Path, folder: str) -> str:
    """Kustomize a folder of the repository, which no test changes, once."""
    return _kustomized(kubectl, folder)


def _kustomized(kubectl: Path, folder: str) -> str:
    done = subprocess.run(
        [kubectl, "kustomize", str(ROOT / folder)], check=True, capture_output=True, text=True
    )
    return done.stdout


def pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pod specs of all workloads."""
    for item in objects:
        if item["kind"] in {"Deployment", "DaemonSet"}:
            yield item["spec"]["template"]["spec"]


def combined(binaries: Binaries, folder: Path, resource: str, *components: str) -> list[dict[str, Any]]:
    """Return the objects of a kustomization in `folder` that puts components onto a resource of ours, as people write them."""
    root = os.path.relpath(ROOT, folder)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"{root}/{resource}"],
        "components": [f"{root}/{component}" for component in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return rendered(binaries, str(folder))


def drivers(objects: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the drivers of an installation by who has to know them: agents' rights, operator, protection of claims in use."""
    (operator,) = [
        container
        for pod in pods(objects)
        for container in pod["containers"]
        if container["args"][0] == "operator"
    ]
    named = [arg.removeprefix("--drivers=") for arg in operator["args"] if arg.startswith("--drivers=")]
    rules = [rule for item in objects if item["kind"] == "ClusterRole" for rule in item["rules"]]
    bound = {
        item["spec"]["policyName"] for item in objects if item["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    conditions = [
        condition["expression"]
        for item in objects
        if item["kind"] == "ValidatingAdmissionPolicy" and item["metadata"]["name"] in bound
        for condition in item["spec"].get("matchConditions", ())
        if condition["name"] == "has-devices-of-ours"
    ]
    return {
        "rights": {
            name
            for rule in rules
            if "resourceclaims/driver" in rule["resources"]
            for name in rule["resourceNames"]
        },
        "operator": DRIVERS | {name for text in named for name in text.split(",")},
        "protection": {name for text in conditions for name in re.findall(r"'([^']+)'", text)},
    }


def options(role: str) -> set[str]:
    """Return the options that `python -m apportion ROLE` takes."""
    command = typer.main.get_command(program.app)
    return {option for parameter in command.commands[role].params for option in parameter.opts}  # type: ignore[attr-defined]
