"""A DeviceTaintRule: an administrator's taint on devices of any driver (resource.k8s.io/v1 `DeviceTaintRule`)."""

from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.device import DeviceId
from apportion.dra.reading import Json
from apportion.dra.slice import PoolId
from apportion.dra.taint import Taint


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """One rule: the taint, and which devices get it. An empty field of the selector matches every value."""

    name: str
    taint: Taint
    driver: str = ""
    pool: str = ""
    device: str = ""
    uid: str = ""

    def reaches(self, pool: PoolId) -> bool:
        """Say whether devices of the pool may get the taint."""
        return self.driver in {"", pool.driver} and self.pool in {"", pool.name}

    def covers(self, device: DeviceId) -> bool:
        """Say whether the device gets the taint."""
        return (
            self.driver in {"", device.driver}
            and self.pool in {"", device.pool}
            and self.device in {"", device.name}
        )

    @classmethod
    def from_json(cls, raw: Json) -> "DeviceTaintRule":
        """Read a rule; raises BrokenInput naming the field.

        A missing selector matches every device, as in kube-scheduler, although the API's documentation says none: a
        superfluous taint is noticed, a missing one is not.
        """
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        selector = reading.table(spec, "deviceSelector", at="spec")
        inside = "spec.deviceSelector"
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            taint=Taint.from_json(reading.table(spec, "taint", at="spec"), "spec.taint"),
            driver=reading.text(selector, "driver", at=inside, default=""),
            pool=reading.text(selector, "pool", at=inside, default=""),
            device=reading.text(selector, "device", at=inside, default=""),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
        )
