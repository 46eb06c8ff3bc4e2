"""The generated files of the chart.

In: the manifests, and kustomize to render them. Out: each file's text by its path below the chart: templates from the files of the base and of the
components, comments and all, and the CRDs. What people write by hand (Chart.yaml, values, schema, notes, helpers) is not among them.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.chart.changes import AddedItem, AddedKey, Change, ChangedScalar, changes
from testbed.chart.features import FEATURES, Feature
from testbed.chart.manifesttext import ManifestText, block_of
from testbed.chart.places import PLACES, AddedItems, AddedKeys, Guarded, Place, Replaced
from testbed.errors import TestbedError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMESPACE = "apportion-system"
_WHOLE_NAMESPACE = re.compile(rf"(?<=: ){_NAMESPACE}$|(?<=\[){_NAMESPACE}(?=\])", re.MULTILINE)
_CRDS = "../../crds"
_GENERATED = ("templates/*.yaml", "crds/*.yaml")
_HEADER = "Made by `python -m testbed chart` from manifests/{source}; change that, not this file."
_BY_HAND = "simulation.yaml", "generic-devices.yaml"
"""Templates that no manifest is the source of."""


@dataclass(frozen=True, slots=True)
class Kustomize:
    """Renders manifests with kubectl's kustomize."""

    kubectl: Path
    manifests: Path

    def objects(self, folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the objects of a kustomization by kind and name. Raises TestbedError with what kustomize says."""
        done = subprocess.run(
            [self.kubectl, "kustomize", str(folder)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise TestbedError(f"{folder}: {done.stderr.strip()}")
        documents = yaml.load_all(done.stdout, _LOADER)
        return {(item["kind"], item["metadata"]["name"]): item for item in documents}

    def with_feature(self, feature: Feature) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the objects of the base with one overlay or component."""
        if not feature.component:
            return self.objects(self.manifests / feature.folder)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder).resolve()
            manifests = os.path.relpath(self.manifests, place)
            kustomization = {"resources": [manifests], "components": [f"{manifests}/{feature.folder}"]}
            (place / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
            return self.objects(place)


def generated(kustomize: Kustomize) -> dict[str, str]:
    """Return the text of every generated file. Raises TestbedError where the chart cannot say what the manifests do."""
    base = kustomize.objects(kustomize.manifests)
    features = [(feature, kustomize.with_feature(feature)) for feature in FEATURES]
    listed = yaml.safe_load((kustomize.manifests / "base/kustomization.yaml").read_text(encoding="utf-8"))
    files = dict(_crds(base))
    for name in listed["resources"]:
        if name != _CRDS:
            files[f"templates/{name}"] = _template(kustomize.manifests, name, base, features)
    for feature in FEATURES:
        for source, name in feature.files.items():
            files[f"templates/{name}"] = _further(kustomize.manifests, feature, source)
    return files


def write(files: Mapping[str, str], chart: Path) -> None:
    """Write the files into the chart, and remove generated ones that are not among them."""
    for name in stale(files, chart):
        (chart / name).unlink()
    for name, text in files.items():
        path = chart / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def stale(files: Iterable[str], chart: Path) -> list[str]:
    """Return generated files of the chart that are not made any more."""
    there = [path.relative_to(chart) for pattern in _GENERATED for path in chart.glob(pattern)]
    return sorted(str(path) for path in there if path.name not in _BY_HAND and str(path) not in set(files))


def _crds(base: Mapping[tuple[str, str], dict[str, Any]]) -> Iterator[tuple[str, str]]:
    header = _HEADER.format(source="kustomization.yaml")
    for (kind, name), item in base.items():
        if kind == "CustomResourceDefinition":
            text = yaml.safe_dump(item, sort_keys=False, width=160)
            yield f"crds/{name.partition('.')[0]}.yaml", f"# {header}\n{text}"


def _template(
    manifests: Path,
    name: str,
    base: Mapping[tuple[str, str], dict[str, Any]],
    features: Iterable[tuple[Feature, Mapping[tuple[str, str], dict[str, Any]]]],
) -> str:
    """Return a file of the base as a template."""
    file = ManifestText(_source(manifests / "base" / name))
    for number, item in enumerate(file.objects):
        key = (item["kind"], item["metadata"]["name"])
        for change in changes(item, base[key]):
            # The image's tag is kustomize's here, and has its place there.
            if not isinstance(change, ChangedScalar):
                put(file, number, change)
        for feature, objects in features:
            for change in changes(base[key], objects[key]):
                if not _is_said(key, change, feature):
                    put(file, number, change, feature)
        for place in PLACES:
            if (place.kind, place.name) == key:
                _put_place(file, number, place)
        if item["kind"] == "Namespace":
            file.guard(number, ".Values.namespace.create")
    return _finished(file.text(), f"base/{name}")


def _further(manifests: Path, feature: Feature, source: str) -> str:
    """Return a file with a feature's own objects as a template."""
    text = _source(manifests / feature.folder / source)
    for old, new in feature.replacements.items():
        text = text.replace(old, new)
    guarded = f"{{{{- if {feature.condition} }}}}\n{text.rstrip()}\n{{{{- end }}}}\n"
    return _finished(guarded, f"{feature.folder}/{source}")


def _source(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if "{{" in text:
        raise TestbedError(f"{path}: {{{{ begins an action of a template; write it otherwise")
    return text


def _finished(text: str, source: str) -> str:
    # Quoted where it is a value of its own: a namespace may be named 2024 or true, which YAML reads as something else.
    text = _WHOLE_NAMESPACE.sub("{{ .Release.Namespace | quote }}", text)
    text = text.replace(_NAMESPACE, "{{ .Release.Namespace }}")
    return f"{{{{- /* {_HEADER.format(source=source)} */ -}}}}\n{text}"


def put(file: ManifestText, number: int, change: Change, feature: Feature | None = None) -> None:
    """Put a change into a template, on the feature's condition. Raises TestbedError where the text has no room for it."""
    replacements = feature.replacements if feature else {}
    match change:
        case AddedKey(path, key, value):
            file.add_key(number, path, _on_condition(block_of({key: value}, replacements), feature))
        case AddedItem(path, before, value):
            file.add_item(number, path, before, _on_condition(block_of([value], replacements), feature))
        case ChangedScalar(path, value):
            old: Any = file.objects[number]
            for step in path:
                old = old[step]
            entry = {path[-1]: value}, {path[-1]: old}
            block = _on_condition(block_of(entry[0], replacements), feature, block_of(entry[1]))
            file.replace(number, path, block)


def _on_condition(block: str, feature: Feature | None, otherwise: str = "") -> str:
    if feature is None:
        return block
    other = f"\n{{{{- else }}}}\n{otherwise}" if otherwise else ""
    return f"{{{{- if {feature.condition} }}}}\n{block}{other}\n{{{{- end }}}}"


def _is_said(key: tuple[str, str], change: Change, feature: Feature) -> bool:
    """Say whether a place's lines have the change."""
    return any(
        isinstance(place, Replaced)
        and (place.kind, place.name) == key
        and place.says == feature.folder
        and change.path[: len(place.path)] == place.path
        for place in PLACES
    )


def _put_place(file: ManifestText, number: int, place: Place) -> None:
    match place:
        case Replaced(_, _, path, lines):
            file.replace(number, path, lines)
        case AddedItems(_, _, path, lines):
            file.add_item(number, path, len(_at(file.objects[number], path)), lines)
        case AddedKeys(_, _, path, lines):
            file.add_key(number, path[:-1], lines, after=str(path[-1]))
        case Guarded(_, _, condition):
            file.guard(number, condition)


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value
