"""Random objects of every kind that the operator observes, few enough of each that they meet."""

import copy
from random import Random

from apportion.api.contract import GATE
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from tests.cluster.watchedserver import Key, WatchedServer
from tests.observedcluster import GPU, Json

NODES = ("n0", "n1", "n2")
TEAMS = ("team", "team", "other")
PLACES = {"gpu-0-mig-a-0": ("1g", 0, 1), "gpu-0-mig-b-0": ("3g", 0, 4), "gpu-0-mig-b-4": ("3g", 4, 4)}
"""Partitions of `gpu-0`: profile, first memory slice, number of them."""
DEVICES = ("gpu-0", "gpu-1", "nic-0", *PLACES)
SLOTS = {f"memory-slice-{index}": {"value": "1"} for index in range(8)}
NAMES: dict[ResourceKind, tuple[str, ...]] = {
    kinds.NODES: NODES,
    kinds.SLICES: ("s0", "s1", "s2", "s3"),
    kinds.CLASSES: ("gpu", "late", "theirs"),
    kinds.POLICIES: ("p", "q"),
    kinds.TAINT_RULES: ("t", "u"),
    kinds.LAYOUTS: ("l",),
    kinds.NAMESPACES: ("team", "other"),
    kinds.QUOTAS: ("a", "b", "c"),
    kinds.PARTITIONS: tuple(f"{node}-{place}" for node in NODES for place in PLACES),
    kinds.CLAIMS: ("c0", "c1", "c2", "c3", "c4"),
    kinds.PODS: ("p0", "p1", "p2", "p3", "p4"),
    kinds.POD_GROUPS: ("g", "h"),
    kinds.VOLUME_CLAIMS: ("v", "w"),
    kinds.VOLUMES: ("pv0", "pv1"),
    kinds.STORAGE_CLASSES: ("disks",),
}


def change(rng: Random, server: WatchedServer, kind: ResourceKind | None = None) -> tuple[ResourceKind, Key]:
    """Make, change or delete an object, of any kind unless one is given; returns its kind and name."""
    if kind is None:
        kind = rng.choices(tuple(NAMES), [3 if each in (kinds.PODS, kinds.CLAIMS) else 1 for each in NAMES])[
            0
        ]
    key = (rng.choice(TEAMS) if kind.namespaced else "", rng.choice(NAMES[kind]))
    former = server.objects[kind].get(key)
    if rng.random() < 0.3:
        server.drop(kind, key)
        return kind, key
    metadata = {"name": key[1], **({"namespace": key[0]} if key[0] else {})}
    match kind:
        case kinds.PODS:
            raw = _pod(rng, metadata, former)
        case kinds.CLAIMS:
            users = [pod for pod in server.objects[kinds.PODS].values() if _names(pod, key)]
            raw = _claim(rng, metadata, former, users)
        case kinds.SLICES:
            raw = {"metadata": metadata, "spec": _slice(rng)}
        case kinds.PARTITIONS:
            raw = _partition(rng, metadata)
        case _:
            raw = {"metadata": metadata, **_plain(rng, kind, metadata)}
    server.put(kind, raw)
    return kind, key


def _plain(rng: Random, kind: ResourceKind, metadata: Json) -> Json:
    """Return the rest of an object of a kind with few fields; sometimes one that cannot be read."""
    match kind:
        case kinds.NODES:
            metadata["labels"] = {"zone": rng.choice("ab")}
            resources = {"cpu": rng.choice(("2", "4", "8", "8", "x")), "memory": "32Gi", "pods": "10"}
            return {"spec": {"unschedulable": rng.random() < 0.2}, "status": {"allocatable": resources}}
        case kinds.CLASSES:
            metadata["labels"] = {"apportion.dev/managed": rng.choice(("true", "true", "false"))}
            resource = {"extendedResourceName": "nvidia.com/gpu"} if rng.random() < 0.3 else {}
            return {"spec": {"selectors": [{"cel": {"expression": "true"}}], **resource}}
        case kinds.POLICIES:
            names = rng.sample(NAMES[kinds.CLASSES], rng.randint(1, 2))
            return {
                "spec": {
                    "deviceClasses": {"names": names},
                    "queue": {"order": rng.choice(("FIFO", "Priority", "Priority", "New"))},
                    "unusedTimeout": "0s",
                }
            }
        case kinds.TAINT_RULES:
            device, key = rng.choice(("gpu-0", "gpu-1")), rng.choice("kl")
            return {
                "spec": {"deviceSelector": {"device": device}, "taint": {"key": key, "effect": "NoSchedule"}}
            }
        case kinds.LAYOUTS:
            return {"spec": {"partitions": [{"profile": "3g", "count": rng.randint(1, 2)}]}}
        case kinds.NAMESPACES:
            metadata["labels"] = {"team": rng.choice("ab")}
            return {}
        case kinds.QUOTAS:
            resource = {"name": "gpus", "deviceClass": "gpu", "limit": rng.choice(("1", "2", "3", "x"))}
            return {
                "spec": {
                    "namespaceSelector": {"matchLabels": {"team": rng.choice("ab")}},
                    "resources": [resource],
                }
            }
        case kinds.POD_GROUPS:
            return {"spec": {"schedulingPolicy": {rng.choice(("gang", "gang", "new")): {"minCount": 2}}}}
        case kinds.VOLUME_CLAIMS:
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"} if rng.random() < 0.5 else {}
            return {"spec": {"storageClassName": "disks", "volumeName": rng.choice(("pv0", "pv1", ""))}}
        case kinds.VOLUMES:
            own = "v" if metadata["name"] == "pv0" else "w"
            kept = {"claimRef": {"namespace": "team", "name": own}} if rng.random() < 0.5 else {}
            return {"spec": {"storageClassName": rng.choice(("disks", "others")), **kept}}
        case _:
            mode = rng.choice(("Immediate", "WaitForFirstConsumer"))
            return {"provisioner": "csi.example.com", "volumeBindingMode": mode}


def _slice(rng: Random) -> Json:
    node, generation = rng.choice(NODES), rng.randint(1, 2)
    content: Json = {"sharedCounters": [{"name": "gpu-0-counter-set", "counters": SLOTS}]}
    if rng.random() < 0.7:
        content = {"devices": [_device(rng, name) for name in rng.sample(DEVICES, rng.randint(0, 6))]}
    return {
        "driver": GPU,
        **({"nodeName": node} if rng.random() < 0.9 else {"allNodes": True}),
        "pool": {
            "name": rng.choice((node, node, "wide")),
            "generation": generation if rng.random() < 0.95 else "x",
            "resourceSliceCount": generation,
        },
        **content,
    }


def _device(rng: Random, name: str) -> Json:
    profile, first, size = PLACES.get(name, ("", 0, 8))
    taken = {slot: SLOTS[slot] for slot in [*SLOTS][first : first + size]}
    found: Json = {"name": name, "capacity": {"memory": {"value": "80Gi"}}}
    found["attributes"] = {"type": {"string": "mig" if profile else "gpu"}, "profile": {"string": profile}}
    if name.startswith("gpu-0"):
        found["consumesCounters"] = [{"counterSet": "gpu-0-counter-set", "counters": taken}]
    if name == "gpu-1":
        found["allowMultipleAllocations"] = True
    if rng.random() < 0.1:
        found["taints"] = [{"key": "apportion.dev/held", "value": "u0", "effect": "NoSchedule"}]
    return found


def _partition(rng: Random, metadata: Json) -> Json:
    node, device = metadata["name"].split("-", 1)
    claim = {"kind": "ResourceClaim", "namespace": "team", "name": "c0", "uid": f"u{rng.randrange(3)}"}
    holder = rng.choice((None, claim, {"kind": "PartitionLayout", "name": "l", "uid": "layout"}))
    spec = {"nodeName": node, "driver": GPU, "pool": node, "device": device, "parent": "gpu-0"}
    phase = rng.choice(("Pending", "Ready", "Idle", "Idle", "Failed", "Releasing", "New"))
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if rng.random() < 0.1 else {}
    return {
        "metadata": metadata | leaving,
        "spec": spec
        | {"profile": PLACES[device][0], "origin": "Claim"}
        | ({"holder": holder} if holder else {}),
        "status": {"phase": phase, "preparedBy": rng.sample(("u0", "u1"), rng.randint(0, 2))},
    }


def _names(pod: Json, claim: Key) -> bool:
    rows = (*pod["spec"]["resourceClaims"], *pod.get("status", {}).get("resourceClaimStatuses", ()))
    named = {row.get("resourceClaimName") for row in rows}
    return pod["metadata"]["namespace"] == claim[0] and claim[1] in named


def _claim(rng: Random, metadata: Json, former: Json | None, users: list[Json]) -> Json:
    """Return a claim that is made, loses its devices, gets some or others, or is reserved otherwise."""
    if former is not None:
        raw = copy.deepcopy(former)
    else:
        classes = rng.choice((["gpu"], ["gpu"], ["late"], ["theirs"], ["gpu", "theirs"]))
        rows = [{"name": each, "exactly": {"deviceClassName": each}} for each in classes]
        raw = {"metadata": metadata, "spec": {"devices": {"requests": rows}}}
        if users and rng.random() < 0.4:
            owner = {"kind": "Pod", "controller": True, "uid": rng.choice(users)["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        metadata["annotations"] = {GATE: "Immediate"} if rng.random() < 0.1 else {}
    if rng.random() < 0.1:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    chance = rng.random()
    if chance < 0.2:
        raw.pop("status", None)
    elif chance < 0.6:
        node = rng.choice(NODES)
        place = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        devices = {"results": [_result(rng, raw, node) for _ in range(rng.randint(1, 2))]}
        raw["status"] = {
            "allocation": {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [place]}},
        }
        fields: Json = {"f:status": {"f:allocation": {}}}
        manager = rng.choice(("apportion-operator", "apportion-operator", "another"))
        raw["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": fields}]
    if "status" in raw:
        chosen = rng.sample(users, min(len(users), rng.randint(0, 2)))
        raw["status"]["reservedFor"] = [{"resource": "pods", "uid": pod["metadata"]["uid"]} for pod in chosen]
    return raw


def _result(rng: Random, claim: Json, node: str) -> Json:
    request = claim["spec"]["devices"]["requests"][0]["name"]
    found: Json = {"request": request, "driver": GPU, "pool": rng.choice((node, node, "wide"))}
    found["device"] = rng.choice(DEVICES)
    if rng.random() < 0.3:
        found |= {"shareID": f"s{rng.randrange(9)}", "consumedCapacity": {"memory": "10Gi"}}
    if rng.random() < 0.1:
        found["adminAccess"] = rng.choice((True, True, "maybe"))
    return found


def _pod(rng: Random, metadata: Json, former: Json | None) -> Json:
    """Return a pod that is made, or on which something happens that can happen to it."""
    raw = copy.deepcopy(former) if former is not None else _new_pod(rng, metadata)
    spec, status = raw["spec"], raw.setdefault("status", {})
    if rng.random() < 0.1:
        status["nominatedNodeName"] = rng.choice((*NODES, ""))
    match rng.randrange(8) if former is not None else 7:
        case 0:
            spec["schedulingGates"] = []
        case 1 if not spec["schedulingGates"]:
            spec.setdefault("nodeName", rng.choice(NODES))
        case 2:
            status["phase"] = rng.choice(("Running", "Succeeded", "Failed"))
        case 3:
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        case 4:
            raw["metadata"]["labels"]["app"] = rng.choice("ab")
        case 5:
            made = [row["name"] for row in spec["resourceClaims"] if "resourceClaimTemplateName" in row]
            status["resourceClaimStatuses"] = [{"name": each, "resourceClaimName": each} for each in made]
        case 6:
            requests = spec["containers"][0]["resources"]["requests"]
            requests["cpu"] = rng.choice(("500m", "1", "2", "10", "x"))
    return raw


def _new_pod(rng: Random, metadata: Json) -> Json:
    container: Json = {"name": "main", "resources": {"requests": {"cpu": rng.choice(("500m", "1", "2"))}}}
    if rng.random() < 0.2:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    claims = [{"name": name} for name in rng.sample(NAMES[kinds.CLAIMS], rng.randint(0, 2))]
    for row in claims:
        template = {"resourceClaimTemplateName": rng.choice(("own", "apportion-1-gpu"))}
        row.update({"resourceClaimName": row["name"]} if rng.random() < 0.8 else template)
    spec: Json = {
        "schedulingGates": [
            {"name": gate} for gate in rng.choice(((), (GATE,), (GATE,), (GATE, "example.com/other")))
        ],
        "schedulerName": rng.choice((*("default-scheduler",) * 5, "mistyped")),
        "priority": rng.randint(0, 2),
        "resourceClaims": claims,
        "containers": [container],
    }
    metadata["labels"] = {"app": rng.choice("ab")}
    if rng.random() < 0.3:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": rng.choice("ab")}}}
        if rng.random() < 0.4:
            term["namespaceSelector"] = {"matchLabels": {"team": rng.choice("ab")}}
        relation = rng.choice(("podAntiAffinity", "podAffinity"))
        spec["affinity"] = {relation: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if rng.random() < 0.4:
        metadata["labels"]["apportion.dev/pod-group"] = rng.choice("gh")
        metadata["annotations"] = {"apportion.dev/pod-group-min-count": rng.choice("23")}
    elif rng.random() < 0.1:
        spec["schedulingGroup"] = {"podGroupName": rng.choice("gh")}
    if rng.random() < 0.2:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice("vw")}}]
    return {"metadata": metadata, "spec": spec}
