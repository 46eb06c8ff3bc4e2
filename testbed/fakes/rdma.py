"""A host with RDMA devices: the kernel's files in /sys.

In: a folder that stands for `/`. Out: a tree to which devices are added, changed and removed as hot plug and cables do.
Layout: the kernel's sysfs-class-infiniband ABI; majors and minors as ib_uverbs and ib_umad give them.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.fakes.pci import MELLANOX, NETWORK, plug

_MAJOR = 231
_UVERBS, _UMAD = 192, 0
_RDMA_CM = "10:122"


class RdmaHost:
    """The RDMA part of a host's file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0
        classes = root / "sys" / "class"
        for name in ("infiniband", "infiniband_verbs", "infiniband_mad"):
            (classes / name).mkdir(parents=True)
        manager = classes / "misc" / "rdma_cm"
        manager.mkdir(parents=True)
        (manager / "dev").write_text(f"{_RDMA_CM}\n", encoding="ascii")
        self.set_namespaces("shared")

    def add(
        self,
        name: str,
        bus_id: str,
        *,
        bridge: str = "9b",
        numa: int = 1,
        link: str = "InfiniBand",
        rate: str = "400 Gb/sec (4X NDR)",
        guid: str = "946d:ae03:00a3:1b2c",
        interface: str = "",
        ports: int = 1,
        function_of: str = "",
    ) -> None:
        """Add a device; `function_of` is the bus id of the NIC whose virtual function it is."""
        pci = plug(self.root, bus_id, bridge, numa, vendor=MELLANOX, device_class=NETWORK)
        folder = pci / "infiniband" / name
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(f"../../../{bus_id}")
        for file, text in {
            "node_guid": guid,
            "node_type": "1: CA",
            "fw_ver": "28.39.1002",
            "hca_type": "MT4129",
            "board_id": "MT_0000000838",
        }.items():
            (folder / file).write_text(f"{text}\n", encoding="ascii")
        for port in range(1, ports + 1):
            place = folder / "ports" / str(port)
            place.mkdir(parents=True)
            for file, text in {"link_layer": link, "state": "4: ACTIVE", "rate": rate}.items():
                (place / file).write_text(f"{text}\n", encoding="ascii")
        if interface:
            (pci / "net" / interface).mkdir(parents=True)
        if function_of:
            (pci / "physfn").symlink_to(f"../{function_of}")
            physical = (self.root / "sys" / "bus" / "pci" / "devices" / function_of).resolve()
            if physical.exists():  # a virtual machine has functions only
                number = len([*physical.glob("virtfn*")])
                (physical / f"virtfn{number}").symlink_to(f"../{bus_id}")
        own = f"../../devices/pci0000:{bridge}/0000:{bridge}:01.0/{bus_id}"
        (self._class("infiniband") / name).symlink_to(f"{own}/infiniband/{name}")
        self._node(pci, own, "infiniband_verbs", f"uverbs{self._count}", name, _UVERBS)
        self._node(pci, own, "infiniband_mad", f"umad{self._count}", name, _UMAD)
        self._count += 1

    def set_namespaces(self, mode: str) -> None:
        """Do what `rdma system set netns` does; shared is what the kernel begins with.

        linux drivers/infiniband/core/device.c: netns_mode is ib_devices_shared_netns, which rdma_compatdev_set changes.
        """
        folder = self.root / "sys" / "module" / "ib_core" / "parameters"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "netns_mode").write_text("Y\n" if mode == "shared" else "N\n", encoding="ascii")

    def set_port(self, name: str, state: str, *, port: int = 1) -> None:
        """Change a port's state: `4: ACTIVE`, `1: DOWN`, `2: INIT`."""
        file = self._class("infiniband") / name / "ports" / str(port) / "state"
        file.write_text(f"{state}\n", encoding="ascii")

    def train(self, name: str, rate: str, *, port: int = 1) -> None:
        """Have a port's link come up with a rate: before, the kernel shows the least that there is."""
        file = self._class("infiniband") / name / "ports" / str(port) / "rate"
        file.write_text(f"{rate}\n", encoding="ascii")

    def rename_interface(self, name: str, interface: str) -> None:
        """Give the only interface of a device another name, as udev does."""
        (folder,) = ((self._class("infiniband") / name).resolve().parents[1] / "net").iterdir()
        folder.rename(folder.with_name(interface))

    def hide_interface(self, name: str) -> None:
        """Show no interface of a device, as while it is in another network namespace.

        /sys has the interfaces of the namespace in which it was mounted (linux net/core/net-sysfs.c, net_class: ns_type).
        """
        shutil.rmtree((self._class("infiniband") / name).resolve().parents[1] / "net", ignore_errors=True)

    def name_port(self, name: str, interface: str, port: str) -> None:
        """Give an interface of a device's PCI device its `phys_port_name`; one that is not there is added."""
        folder = (self._class("infiniband") / name).resolve().parents[1] / "net" / interface
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "phys_port_name").write_text(f"{port}\n", encoding="ascii")

    @contextmanager
    def hanging(self, name: str, answer: str = "fw_ver") -> Iterator[None]:
        """Have who reads a device's firmware version, or another of its files, wait until the block ends, as a file of /sys does for a firmware that hangs."""
        file = self._class("infiniband") / name / answer
        file.unlink()
        os.mkfifo(file)
        opened = os.open(file, os.O_RDWR)
        try:
            yield
        finally:
            file.unlink()
            os.close(opened)

    def let_go(self, name: str) -> None:
        """Have a device's driver give it up, as one does whose firmware has died: it is plugged, and neither RDMA device nor interface is there."""
        self.hide_interface(name)
        (self._class("infiniband") / name).unlink()

    def remove(self, name: str) -> None:
        """Pull a device out."""
        link = self._class("infiniband") / name
        pci = link.resolve().parents[1]
        link.unlink()
        for kind in ("infiniband_verbs", "infiniband_mad"):
            for entry in self._class(kind).iterdir():
                if (entry / "ibdev").read_text(encoding="ascii").strip() == name:
                    entry.unlink()
        (self.root / "sys" / "bus" / "pci" / "devices" / pci.name).unlink()
        shutil.rmtree(pci)

    def reload(self, *order: str) -> None:
        """Load the driver anew: device numbers are given in the order in which devices come up, and that may be another.

        ib_uverbs and ib_umad take the lowest free number for each device that is added (linux drivers/infiniband/core:
        uverbs_main.c ib_uverbs_create_uapi, user_mad.c ib_umad_init_port: ida_alloc).
        """
        places = {name: (self._class("infiniband") / name) for name in order}
        for kind in ("infiniband_verbs", "infiniband_mad"):
            for entry in list(self._class(kind).iterdir()):
                shutil.rmtree(entry.resolve())
                entry.unlink()
        self._count = 0
        for name, link in places.items():
            pci, own = link.resolve().parents[1], str(link.readlink().parents[1])
            self._node(pci, own, "infiniband_verbs", f"uverbs{self._count}", name, _UVERBS)
            self._node(pci, own, "infiniband_mad", f"umad{self._count}", name, _UMAD)
            self._count += 1

    def _class(self, name: str) -> Path:
        return self.root / "sys" / "class" / name

    def _node(self, pci: Path, own: str, kind: str, node: str, device: str, first: int) -> None:
        folder = pci / kind / node
        folder.mkdir(parents=True)
        (folder / "ibdev").write_text(f"{device}\n", encoding="ascii")
        (folder / "dev").write_text(f"{_MAJOR}:{first + self._count}\n", encoding="ascii")
        (self._class(kind) / node).symlink_to(f"{own}/{kind}/{node}")
