"""One interface from the host into a pod and back: the acts, without a journal.

In: a journal row, a namespace. Out: the interface where it belongs, set up; every act may be repeated, wherever a kill ended it. An
interface that is away is known by what it is (PCI device and first MAC address); by its alias where that does not tell.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from apportion.agent.devices.rdma import sysfs
from apportion.agent.devices.rdma.sysfs import RdmaDevice
from apportion.agent.network import netlink, rdmalink, virtualfunctions
from apportion.agent.network.interface import Address, Interface, Route, VirtualFunction
from apportion.agent.network.namespaces import Namespaces
from apportion.agent.rows import NetworkRow
from apportion.api.networkconfig import NetworkConfig, VirtualFunctionConfig
from apportion.errors import NotReady

_PCI: Final = "sys/bus/pci/devices"
_TRIES: Final = 3
"""After so many the host gets an interface as far as the kernel gives it back: its claim would be prepared for ever."""


class Moves:
    """Those of one node. The methods block; each raises NotReady."""

    def __init__(self, namespaces: Namespaces, host_root: Path, at: Callable[[str], None]) -> None:
        """`at` is called at every boundary between two acts."""
        self.namespaces = namespaces
        self._root = host_root
        self._at = at
        self._tries = Counter[str]()
        """How often an interface could not be brought back, by its row's key."""

    def read(self, row: NetworkRow, device: RdmaDevice) -> Interface:
        """Return the row's interface on the host, and what is set for it as a virtual function if the claim changes that."""
        found = netlink.read(self.namespaces.host, row.interface)
        if found is None:
            raise NotReady(f"interface {row.interface} is not on the host")
        wanted = _wanted(row)
        if wanted.virtual_function is None and (
            wanted.interface.hardware_addr is None or not device.physical
        ):
            return found
        number = sysfs.function_number(self._root, device)
        function = self._function(device.physical, number)[1] if number is not None else None
        if function is None:
            raise NotReady(
                f"{row.card}: no interface of {device.physical} on the host has it as a virtual function"
            )
        return replace(found, function=function)

    def take(self, row: NetworkRow, source: Path, wanted: Interface) -> None:
        """Move the row's interface into the namespace of `source`, and set it up there as `wanted`."""
        before = _before(row)
        try:
            pod = self.namespaces.pin(row.key, source)
        except OSError as error:
            raise NotReady(f"the pod's network namespace cannot be kept: {error}") from None
        self._at("network.pinned")
        found = _known(row, before, netlink.interfaces(pod))
        if found is None:
            there = _known(row, before, netlink.interfaces(self.namespaces.host))
            if there is None:
                raise NotReady(f"interface {before.name} is not on the host")
            netlink.mark(self.namespaces.host, there.index, _alias(row))
            self._at("network.marked")
            if wanted.function is not None:
                self._set_function(wanted.function)
                self._at("network.function_set")
            try:
                netlink.move(self.namespaces.host, there.index, pod, wanted.name)
            except NotReady as error:
                raise NotReady(
                    f"interface {before.name} cannot be {wanted.name} in the pod: {error}"
                ) from None
            self._at("network.crossed")
            found = _known(row, before, netlink.interfaces(pod))
        if found is None:
            raise NotReady(f"interface {wanted.name} left the pod's network while it was set up")
        refused = netlink.set_up(pod, found.index, wanted)
        if refused:
            raise NotReady("; ".join(refused))
        self._at("network.set_up")
        if row.nic and rdmalink.is_in(self.namespaces.host, row.nic):
            rdmalink.move(self.namespaces.host, row.nic, pod)
            self._at("network.rdma_moved")

    def bring_back(self, row: NetworkRow) -> tuple[str, ...]:
        """Give the host the row's interface as it was before; returns what the host has no more, for people.

        That is the interface itself where it does not exist any more, or what of it the kernel refuses by now: addresses, routes and further
        names at once, all else after some tries, because a driver may be starting anew; so with one whose driver has given it up. Raises
        NotReady also while nobody knows where it is.
        """
        yields = self._tries[row.key] >= _TRIES
        self._tries[row.key] += 1
        before = _before(row)
        host, pod = self.namespaces.host, self.namespaces.pinned(row.key)
        if self.namespaces.is_pinned(row.key):
            if row.nic and rdmalink.is_in(pod, row.nic):
                rdmalink.move(pod, row.nic, host)
                self._at("network.rdma_brought")
            there = _known(row, before, netlink.interfaces(pod))
            if there is not None:
                # The kernel moves nothing that has a name which is taken there; a pod gives its interface any.
                if before.altnames is not None:
                    netlink.drop_altnames(pod, there.index, there.altnames or ())
                    self._at("network.altnames_dropped")
                taken = yields and any(each.name == before.name for each in netlink.interfaces(host))
                # As the kernel names one whose namespace has ended.
                netlink.move(pod, there.index, host, f"dev{there.index}" if taken else before.name)
                self._at("network.brought")
        function = before.function
        if function is not None and sysfs.has_function(self._root, function.physical, function.number):
            # Not before it has left the pod, whose packets would be in no VLAN.
            self._set_function(function, own_mac=before.mac)
            self._at("network.function_restored")
        on_host = netlink.interfaces(host)
        found = _known(row, before, on_host)
        missing: tuple[str, ...]
        if found is not None:
            refused: list[str] = []
            if found.name != before.name:
                refused += filter(None, [netlink.rename(host, found.index, before.name)])
                if refused and not yields:
                    raise NotReady(*refused)
                self._at("network.renamed")
            refused += netlink.set_up(host, found.index, before, yields=yields)
            missing = tuple(f"interface {before.name} of {row.card}: {text}" for text in refused)
            self._at("network.restored")
            netlink.mark(host, found.index, before.alias)
        elif (
            before.parent
            and (self._root / _PCI / before.parent).exists()
            and not any(_made_anew(before, each) for each in on_host)
            and not (yields and self._given_up(before.parent))
        ):
            raise NotReady(f"interface {before.name} of {row.card} is neither in the pod nor on the host")
        else:
            missing = (f"interface {before.name} of {row.card} does not exist any more",)
        self.unpin(row)
        del self._tries[row.key]
        return missing

    def _set_function(self, wanted: VirtualFunction, *, own_mac: str = "") -> None:
        index, found = self._function(wanted.physical, wanted.number)
        if found is None:
            raise NotReady(
                f"no interface of {wanted.physical} on the host has virtual function {wanted.number}"
            )
        virtualfunctions.apply(self.namespaces.host, index, wanted, own_mac=own_mac)

    def _function(self, physical: str, number: int) -> tuple[int, VirtualFunction | None]:
        """Return what is set for a virtual function, and the index of the interface that says so."""
        host = self.namespaces.host
        names = sysfs.interfaces_of(self._root, physical)
        for index in [each.index for each in netlink.interfaces(host) if each.name in names]:
            # A NIC may have interfaces that stand for its functions (switchdev); these know nothing of them.
            found = virtualfunctions.read(host, index, physical, number)
            if found is not None:
                return index, found
        return 0, None

    def _given_up(self, bus_id: str) -> bool:
        """Say whether a NIC that is plugged has no RDMA device: its driver has let go of it, and of its interface, wherever that was."""
        shown = (sysfs.identity(self._root, name) for name in sysfs.names(self._root))
        return not self.moves_alone() and all(each is None or each.pci_bus_id != bus_id for each in shown)

    def on_host(self, row: NetworkRow) -> bool:
        """Say whether the row's interface is on the host, under whatever name."""
        before = _before(row)
        return _known(row, before, netlink.interfaces(self.namespaces.host)) is not None

    def unpin(self, row: NetworkRow) -> None:
        """Keep the pod's namespace no longer."""
        try:
            self.namespaces.unpin(row.key)
        except OSError as error:
            raise NotReady(f"the pod's network namespace cannot be let go: {error}") from None
        self._at("network.unpinned")

    def moves_alone(self) -> bool:
        """Say whether an RDMA device stays behind when its interface goes to a pod, and has to be moved, too."""
        return sysfs.namespace_mode(self._root) == "exclusive"

    def device(self, name: str) -> RdmaDevice:
        """Return what /sys shows of an RDMA device."""
        found = sysfs.read(self._root, name)
        if found is None:
            raise NotReady(f"RDMA device {name} is not on the host")
        return found


def _alias(row: NetworkRow) -> str:
    return f"apportion:{row.key}"


def _before(row: NetworkRow) -> Interface:
    try:
        return Interface.from_json(row.before)
    except (ValueError, TypeError, KeyError) as error:
        raise NotReady(f"{row.device}: how its interface was on the host cannot be read: {error!r}") from None


def _wanted(row: NetworkRow) -> NetworkConfig:
    try:
        return NetworkConfig.model_validate_json(row.wanted)
    except ValidationError as error:
        # To leave out what only a later release knows would be another interface than the claim asks for.
        fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
        raise NotReady(f"{row.device}: its NetworkConfig cannot be read: {fields}") from None


def _known(row: NetworkRow, before: Interface, there: Iterable[Interface]) -> Interface | None:
    """Return the row's interface among those of a namespace.

    A pod may give its alias to another interface: that of a PCI device is first of all what the kernel says of it. Its alias counts beside
    that, because some drivers change the first MAC address of a virtual function (intel/iavf, intel/ixgbevf: `perm_addr`).
    """

    def likeness(each: Interface) -> tuple[bool, bool]:
        marked, same = each.alias == _alias(row), each.permanent == before.permanent
        if before.virtual:
            return marked, same and (each.mac, each.name) == (before.mac, before.name)
        return same, marked

    candidates = (each for each in there if each.parent == before.parent and any(likeness(each)))
    return max(candidates, key=likeness, default=None)


def _made_anew(before: Interface, other: Interface) -> bool:
    """Say whether another interface has the place of one that is nowhere.

    What stands for a virtual function (switchdev) is of the same PCI device, and has no first MAC address.
    """
    return other.parent == before.parent and other.permanent not in ("", before.permanent)


def inside(row: NetworkRow) -> Interface:
    """Return how a row's interface is to be in the pod: what it was on the host, but for what the claim says. Raises NotReady."""
    before = _before(row)
    wanted = _wanted(row)
    own = wanted.interface
    addresses = before.addresses
    routes = before.routes
    if own.addresses is not None:
        parts = (text.split("/") for text in own.addresses)
        addresses = tuple(Address(address, int(prefix)) for address, prefix in parts)
        routes = ()  # the host's are those of the host's addresses
    if wanted.routes is not None:
        routes = tuple(Route(route.destination, route.gateway or "") for route in wanted.routes)
    # A table of the host's rules is no table of the pod's,
    # and an address of another interface no source there.
    sources = {each.address for each in addresses}
    routes = tuple(
        replace(route, source=route.source if route.source in sources else "")
        for route in routes
        if route.table == Route("").table
    )
    return replace(
        before,
        name=own.name or before.name,
        mac=own.hardware_addr or before.mac,
        mtu=own.mtu or before.mtu,
        up=True,
        addresses=tuple(replace(address, label="") for address in addresses),
        routes=routes,
        function=_function_inside(before.function, wanted) if before.function is not None else None,
    )


def _function_inside(before: VirtualFunction, wanted: NetworkConfig) -> VirtualFunction:
    own = wanted.virtual_function or VirtualFunctionConfig()
    tagged = own.vlan is not None
    return replace(
        before,
        mac=wanted.interface.hardware_addr or before.mac,
        vlan=own.vlan if own.vlan is not None else before.vlan,
        qos=own.vlan_qos or 0 if tagged else before.qos,
        protocol=own.vlan_proto or "802.1q" if tagged else before.protocol,
        spoofchk=before.spoofchk if own.spoofchk is None else own.spoofchk,
        trust=before.trust if own.trust is None else own.trust,
    )
