"""The manifests as kustomize renders them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from apportion import __main__ as program
from testbed.binaries import Binaries

ROOT = Path(__file__).parents[2]


def rendered(binaries: Binaries, folder: str) -> list[dict[str, Any]]:
    """Return the objects that `kubectl apply -k FOLDER` would apply."""
    done = subprocess.run(
        [binaries["kubectl"], "kustomize", str(ROOT / folder)], check=True, capture_output=True, text=True
    )
    return list(yaml.safe_load_all(done.stdout))


def pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pod specs of all workloads."""
    for item in objects:
        if item["kind"] in {"Deployment", "DaemonSet"}:
            yield item["spec"]["template"]["spec"]


def options(role: str) -> set[str]:
    """Return the options that `python -m apportion ROLE` takes."""
    command = typer.main.get_command(program.app)
    return {option for parameter in command.commands[role].params for option in parameter.opts}  # type: ignore[attr-defined]
