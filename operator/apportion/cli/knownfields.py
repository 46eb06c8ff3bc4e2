"""Fields of claims as people write them: one that the API does not know is refused, with the field that was probably meant.

In: a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) as JSON. Out: nothing, or BrokenInput with the field's path.
The API server drops fields that it does not know, with a warning at most: `cuont: 2` would ask for one device.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from apportion.api.meant import meant
from apportion.dra.reading import Json, join
from apportion.errors import BrokenInput

Fields: TypeAlias = "Mapping[str, Fields | None]"
"""By name: the fields of what is inside, None where that is not looked at. A list has the fields of its entries."""

_TOLERATION: Final[Fields] = dict.fromkeys(("key", "operator", "value", "effect", "tolerationSeconds"))
_ALTERNATIVE: Final[Fields] = {
    "deviceClassName": None,
    "selectors": {"cel": {"expression": None}},
    "allocationMode": None,
    "count": None,
    "tolerations": _TOLERATION,
    "capacity": {"requests": None},
}
_CLAIM_SPEC: Final[Fields] = {
    "devices": {
        "requests": {
            "name": None,
            "exactly": {**_ALTERNATIVE, "adminAccess": None},
            "firstAvailable": {**_ALTERNATIVE, "name": None},
        },
        "constraints": dict.fromkeys(("requests", "matchAttribute", "distinctAttribute")),
        "config": {"requests": None, "opaque": {"driver": None, "parameters": None}},
    }
}
_OBJECT: Final[Fields] = dict.fromkeys(("apiVersion", "kind", "metadata", "status"))
_OF_KIND: Final[Mapping[str, Fields]] = {
    "ResourceClaim": {**_OBJECT, "spec": _CLAIM_SPEC},
    "ResourceClaimTemplate": {**_OBJECT, "spec": {"metadata": None, "spec": _CLAIM_SPEC}},
}


def check_fields(raw: Json) -> None:
    """Raise BrokenInput for a field of a claim or template that there is not, or a count below one."""
    fields = _OF_KIND.get(str(raw.get("kind")))
    if fields is not None:
        _check(raw, fields, "")


def _check(value: Any, fields: Fields, at: str) -> None:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _check(entry, fields, f"{at}[{index}]")
        return
    if not isinstance(value, Mapping):
        return  # what reads it says what is wrong
    for name, inside in value.items():
        if name not in fields:
            raise BrokenInput(f"there is no such field{meant(str(name), fields)}", field=join(at, str(name)))
        if name == "count" and isinstance(inside, int) and inside < 1:
            raise BrokenInput(f"{inside} is less than 1", field=join(at, name))
        more = fields[name]
        if more is not None:
            _check(inside, more, join(at, name))
