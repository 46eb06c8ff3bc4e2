"""The CustomResourceDefinitions. In: the models of this package. Out: objects and files for `kubectl apply`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from apportion.api import GROUP, VERSION
from apportion.api.defrag import DefragPolicy
from apportion.api.hold import DeviceHold
from apportion.api.layout import PartitionLayout
from apportion.api.model import Model
from apportion.api.partition import Partition
from apportion.api.policy import AllocationPolicy
from apportion.api.quota import AcceleratorQuota
from apportion.api.schema import Schema, structural

_HEADER = "# Made by `make crds` from operator/apportion/api; change the models, not this file.\n"
_AGE = ("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A CRD without its schema."""

    root: type[Model]
    plural: str
    short: str
    columns: tuple[tuple[str, str, str], ...]
    """Columns of `kubectl get`: title, type and path."""
    selectable: tuple[str, ...] = ()
    """Fields by which the API server can filter watches and lists."""
    longest_name: int | None = None
    """Longest metadata.name in characters, where it is less than Kubernetes allows."""


DEFINITIONS = (
    Definition(
        root=Partition,
        plural="partitions",
        short="part",
        columns=(
            ("Node", "string", ".spec.nodeName"),
            ("Device", "string", ".spec.device"),
            ("Profile", "string", ".spec.profile"),
            ("Phase", "string", ".status.phase"),
            ("Holder", "string", ".spec.holder.name"),
            ("Origin", "string", ".spec.origin"),
            _AGE,
        ),
        selectable=(".spec.nodeName", ".spec.driver"),
    ),
    Definition(
        root=PartitionLayout,
        plural="partitionlayouts",
        short="playout",
        columns=(
            ("Desired", "integer", ".status.nodes.desired"),
            ("Ready", "integer", ".status.nodes.ready"),
            ("Blocked", "integer", ".status.nodes.blocked"),
            _AGE,
        ),
        longest_name=63,  # the name is the value of the device attribute `layout`: 64 bytes at most
    ),
    Definition(
        root=AllocationPolicy,
        plural="allocationpolicies",
        short="apol",
        columns=(
            ("Strategy", "string", ".spec.strategy"),
            ("Classes", "string", ".status.managedClasses"),
            ("Pending", "integer", ".status.pending"),
            ("Allocated", "integer", ".status.allocated"),
            ("Accepted", "string", ".status.conditions[?(@.type=='Accepted')].reason"),
            ("Resolved", "string", ".status.conditions[?(@.type=='Resolved')].reason"),
            _AGE,
        ),
    ),
    Definition(
        root=AcceleratorQuota,
        plural="acceleratorquotas",
        short="aquota",
        columns=(
            ("Cohort", "string", ".spec.cohort"),
            ("Used", "string", ".status.summary"),
            ("Pending", "integer", ".status.pending"),
            ("Share", "integer", ".status.share"),
            ("Served", "string", ".status.conditions[?(@.type=='Served')].reason"),
            ("Resolved", "string", ".status.conditions[?(@.type=='Resolved')].reason"),
            _AGE,
        ),
    ),
    Definition(
        root=DefragPolicy,
        plural="defragpolicies",
        short="dpol",
        columns=(
            ("Mode", "string", ".spec.mode"),
            ("Schedule", "string", ".spec.schedule"),
            ("Plan", "string", ".status.summary"),
            ("Reason", "string", ".status.conditions[?(@.type=='Planned')].reason"),
            ("Completed", "string", ".status.conditions[?(@.type=='Completed')].reason"),
            ("Next", "string", ".status.nextSchedule"),
            _AGE,
        ),
    ),
    Definition(
        root=DeviceHold,
        plural="deviceholds",
        short="dhold",
        columns=(
            ("Purpose", "string", ".spec.purpose"),
            ("Kind", "string", ".spec.heldFor[0].kind"),
            ("Namespace", "string", ".spec.heldFor[0].namespace"),
            ("For", "string", ".spec.heldFor[0].name"),
            ("Devices", "integer", ".spec.count"),
            ("Starts", "string", ".spec.starts"),
            _AGE,
        ),
    ),
)


def render(definition: Definition) -> Mapping[str, Any]:
    """Return the CRD as an object."""
    name = definition.root.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": definition.plural,
                "singular": name.lower(),
                "shortNames": [definition.short],
                "categories": ["apportion"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if "status" in definition.root.model_fields else {}),
                    "additionalPrinterColumns": [
                        {"name": title, "type": type_, "jsonPath": path}
                        for title, type_, path in definition.columns
                    ],
                    **(
                        {"selectableFields": [{"jsonPath": path} for path in definition.selectable]}
                        if definition.selectable
                        else {}
                    ),
                    "schema": {"openAPIV3Schema": _schema(definition)},
                },
            ],
        },
    }


def files() -> Mapping[str, str]:
    """Return the files of crds/ by name: one for each CRD, and the kustomization that lists them."""
    written = {f"{definition.plural}.yaml": _HEADER + _yaml(render(definition)) for definition in DEFINITIONS}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(written),
    }
    return {**written, "kustomization.yaml": _HEADER + _yaml(kustomization)}


def write(folder: Path) -> tuple[Path, ...]:
    """Write the files of crds/ and return their paths. Raises OSError when the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in files().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return tuple(paths)


def _schema(definition: Definition) -> Schema:
    root = structural(definition.root.model_json_schema(by_alias=True))
    metadata: Schema = {"type": "object"}
    if definition.longest_name is not None:
        metadata["properties"] = {"name": {"type": "string", "maxLength": definition.longest_name}}
    found: Schema = {
        "type": "object",
        "description": root["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "spec": root["properties"]["spec"],
        },
    }
    status = root["properties"].get("status")
    if status is not None:
        found["properties"]["status"] = {key: value for key, value in status.items() if key != "default"}
    return found


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
