"""A PodGroup: how many pods of a group must be scheduled together, and in one domain of what (scheduling.k8s.io/v1beta1, KEP-4671)."""

from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class PodGroup:
    """One PodGroup in one version."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    least: int = 1
    """`gang.minCount`; 1 for the policy `basic`: its pods are scheduled one by one."""
    topology: str | None = None
    """`schedulingConstraints.topology[0].key`: all pods go to nodes with one value of this label."""
    deleting: bool = False

    @classmethod
    def from_json(cls, raw: Json) -> "PodGroup":
        """Read a PodGroup; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        policy = reading.table(spec, "schedulingPolicy", at="spec")
        if policy.get("basic") is None and policy.get("gang") is None:
            raise BrokenInput(
                "neither `basic` nor `gang`, which are the policies known here", field="spec.schedulingPolicy"
            )
        gang = reading.table(policy, "gang", at="spec.schedulingPolicy")
        constraints = reading.table(spec, "schedulingConstraints", at="spec")
        keys = [
            reading.text(row, "key", at=path)
            for path, row in reading.rows(constraints, "topology", at="spec.schedulingConstraints")
        ]
        return cls(
            namespace=reading.text(metadata, "namespace", at="metadata", default=""),
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            version=reading.text(metadata, "resourceVersion", at="metadata", default=""),
            least=reading.number(gang, "minCount", at="spec.schedulingPolicy.gang", default=1),
            topology=keys[0] if keys else None,
            deleting=metadata.get("deletionTimestamp") is not None,
        )
