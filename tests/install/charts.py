"""The Helm chart as the real Helm renders it."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.install.rendered import ROOT, documents

CHART = ROOT / "charts/apportion"
NAMESPACE = "apportion-system"


@dataclass(frozen=True, slots=True)
class Helm:
    """Runs Helm with folders of its own."""

    program: Path
    home: Path

    def run(
        self, *arguments: str, values: dict[str, Any] | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; `values` are handed over as a file."""
        more = []
        if values is not None:
            file = self.home / "values.yaml"
            file.write_text(yaml.safe_dump(values), encoding="utf-8")
            more = ["--values", str(file)]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(kubeconfig or self.home / "none"),
        }
        return subprocess.run(
            [self.program, *arguments, *more], check=False, capture_output=True, text=True, env=environment
        )

    def done(
        self, *arguments: str, values: dict[str, Any] | None = None, kubeconfig: Path | None = None
    ) -> str:
        """Run a command that has to succeed; returns what it prints."""
        ran = self.run(*arguments, values=values, kubeconfig=kubeconfig)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def text(self, values: dict[str, Any], *, namespace: str = NAMESPACE, chart: Path = CHART) -> str:
        """Return what the chart renders to, with its CRDs."""
        return self.done(
            "template", "apportion", str(chart), "--namespace", namespace, "--include-crds", values=values
        )

    def objects(self, values: dict[str, Any], *, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
        """Return the objects that the chart renders to."""
        return [item for item in documents(self.text(values, namespace=namespace)) if item]


def keyed(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return objects by kind and name, without what is no difference: comments in ConfigMaps, and line breaks in CEL, to which kustomize adds."""
    found = {}
    for item in objects:
        if item["kind"] == "ConfigMap":
            item["data"] = {name: yaml.safe_load(text) for name, text in item["data"].items()}
        found[item["kind"], item["metadata"]["name"]] = _on_one_line(item)
    assert len(found) == len(objects)
    return found


def _on_one_line(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {name: _on_one_line(inner, name) for name, inner in value.items()}
        case list():
            return [_on_one_line(inner) for inner in value]
        case str() if key in {"expression", "messageExpression"}:
            return " ".join(value.split())
    return value
