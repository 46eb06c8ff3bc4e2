"""A network interface of this machine that stands for a NIC's, and network namespaces that stand for pods'.

In: nothing. Out: a veth with addresses, routes and an MTU of its own, and what `ip` says about it. Its other end stays on the host. A
veth is what goes wrong most: the kernel ends it with the namespace that it is in, while a physical one comes back by itself.
"""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def ip(*words: str, namespace: str = "") -> Any:
    """Run `ip`; returns its JSON, None if it prints none. Raises CalledProcessError."""
    inside = ("-n", namespace) if namespace else ()
    done = subprocess.run(["ip", *inside, "-j", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.strip() else None


def unsupported() -> str:
    """Return why no such interface can be had here, "" when one can."""
    try:
        with host_network():
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        return f"network interfaces and namespaces cannot be made here: {said.strip()}"


@dataclass
class HostNetwork:
    """One interface, and pods."""

    name: str
    peer: str
    number: int
    """Makes its addresses differ from those of others, of the range for tests of network devices (RFC 2544)."""
    namespaces: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return f"198.18.{self.number}.1/24"

    @property
    def address6(self) -> str:
        """Its IPv6 address (RFC 5180)."""
        return f"2001:2:0:{self.number:x}::1/64"

    @property
    def gateway(self) -> str:
        """A router of its network, which nobody is."""
        return f"198.18.{self.number}.254"

    def pod(self) -> tuple[str, str]:
        """Make a pod's namespace, as a CNI plugin does; returns its name and path."""
        name = f"pod-{secrets.token_hex(4)}"
        ip("netns", "add", name)
        self.namespaces.append(name)
        ip("link", "set", "lo", "up", namespace=name)
        return name, f"/run/netns/{name}"

    def end(self, namespace: str) -> None:
        """End a pod's namespace."""
        ip("netns", "delete", namespace)
        self.namespaces.remove(namespace)

    def plug(self, *link: str) -> None:
        """Make the interface; `link` are further words of `ip link add`."""
        ip("link", "add", self.name, *link, "type", "veth", "peer", "name", self.peer)
        ip("link", "set", self.peer, "up")
        ip("link", "set", self.name, "mtu", "1410", "alias", "rail 3", "up")
        ip("address", "add", self.address, "dev", self.name)
        ip("address", "add", self.address6, "dev", self.name, "nodad")
        far = f"198.19.{self.number}.0/24"
        ip("route", "add", far, "via", self.gateway, "dev", self.name, "metric", "55")

    def unplug(self) -> None:
        """End both ends of it, wherever the other one is."""
        subprocess.run(["ip", "link", "delete", self.peer], check=False, capture_output=True)

    def replug(self, mac: str) -> None:
        """Make it anew, as a reboot does."""
        self.unplug()
        self.plug("address", mac)

    def on_host(self) -> dict[str, Any]:
        """Return how the interface is on the host, {} if it is not there."""
        return seen(self.name)


@contextmanager
def host_network() -> Iterator[HostNetwork]:
    """Make the interface; afterwards nothing of it is left."""
    tag = secrets.token_hex(3)
    network = HostNetwork(f"nic{tag}", f"far{tag}", _free_number())
    try:
        network.plug()
        yield network
    finally:
        network.unplug()
        for name in network.namespaces:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _free_number() -> int:
    """Return one whose networks nobody has: others run tests on this machine, and one that was killed leaves its interface."""
    used = {row["dst"] for row in ip("route", "show", "root", "198.18.0.0/15") or ()}
    free = [
        number for number in range(1, 251) if not used & {f"198.18.{number}.0/24", f"198.19.{number}.0/24"}
    ]
    return secrets.choice(free)


def seen(name: str, namespace: str = "") -> dict[str, Any]:
    """Return how an interface is: MTU, whether it is up, alias, addresses, routes; {} if it is not there."""
    rows = ip("address", "show", namespace=namespace)
    found = next((row for row in rows if row.get("ifname") == name), None)
    if found is None:
        return {}
    try:
        routes = [
            row
            for family in ("-4", "-6")
            for row in ip(family, "route", "show", "dev", name, namespace=namespace) or ()
            if row.get("protocol") != "kernel"
        ]
        alias = next((row.get("ifalias", "") for row in ip("link", "show", name, namespace=namespace)), "")
    except subprocess.CalledProcessError:
        if any(row.get("ifname") == name for row in ip("address", "show", namespace=namespace)):
            raise
        return {}  # it left between two of these looks
    return {
        "mtu": found["mtu"],
        "up": "UP" in found["flags"],
        "alias": alias,
        "mac": found["address"],
        "addresses": sorted(
            f"{row['local']}/{row['prefixlen']}" for row in found["addr_info"] if row["scope"] != "link"
        ),
        "routes": sorted((row["dst"], row.get("gateway", ""), row.get("metric", 0)) for row in routes),
    }


def unmount_below(folder: Path) -> None:
    """Undo what a killed agent keeps mounted below a folder."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in mounts:
        if Path(mount).is_relative_to(folder.resolve()):
            subprocess.run(["umount", "--lazy", mount], check=False)
