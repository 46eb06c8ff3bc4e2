"""The bill of materials, in the form of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

In: the lock file of what runs in the image. Out: a document that names each package, its version, and the hashes that any of its files has to have.
"""

import re
import uuid
from typing import Any

_PACKAGE = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?: *; *(?P<marker>[^\\]+?))? *\\?$"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"#\s+(?:via\s+)?([A-Za-z0-9._-]+)(?: \(pyproject\.toml\))?$")


def bill_of_materials(lock: str, version: str) -> dict[str, Any]:
    """Return the document. Raises ValueError for a lock file without hashes for every package."""
    components: list[dict[str, Any]] = []
    needed_by: dict[str, list[str]] = {}
    for line in lock.splitlines():
        if package := _PACKAGE.match(line):
            components.append(_component(package["name"], package["version"], package["marker"]))
        elif line.strip().startswith("--hash"):
            components[-1]["externalReferences"][0]["hashes"] += [
                {"alg": "SHA-256", "content": digest} for digest in _HASH.findall(line)
            ]
        elif (via := _VIA.search(line)) and components and via[1] != "via":
            needed_by.setdefault(via[1], []).append(components[-1]["bom-ref"])
    bare = [each["name"] for each in components if not each["externalReferences"][0]["hashes"]]
    if bare or not components:
        raise ValueError(f"the lock file has no hashes for: {', '.join(bare) or 'anything'}")
    own = _reference("apportion", version)
    names = {"apportion": own} | {each["name"]: each["bom-ref"] for each in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "apportion",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(needed_by.get(name, ()))}
            for name, reference in names.items()
        ],
    }


def _component(name: str, version: str, marker: str | None) -> dict[str, Any]:
    reference = _reference(name, version)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "externalReferences": [
            {"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": []}
        ],
    }
    if marker:
        component["properties"] = [{"name": "apportion:marker", "value": marker}]
    return component


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
