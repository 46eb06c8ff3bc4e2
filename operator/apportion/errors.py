"""What can go wrong, and what follows from it.

ApportionError
├── BrokenInput          an object can never work as written; it names object, field and reason
│   ├── SelectorError        a CEL text that does not compile, or fails on a device
│   └── TooMuch              more results, configs or requests than the API takes
├── BrokenNode           this node's slices contradict each other; the next node may do
├── ApiError             the API server refused, or did not answer
│   ├── Overtaken            somebody wrote first: forget, look again (409, failed precondition)
│   ├── Missing              the object is not there (404)
│   ├── Expired              the watch's version is too old: list again (410)
│   └── Unreachable          no answer, or one that says "later" (429, 5xx, time-out)
├── NotLeading           the lease is gone or about to go: write nothing
├── NotReady             a partner has not answered yet: try again later
└── HardwareError        the driver said no
    ├── Busy                 a process still holds the partition
    ├── NoRoom               no free place, or one that we half made ourselves
    ├── Unsupported          this hardware or driver cannot do it, now or ever
    └── Lost                 the device left the bus
"""


class ApportionError(Exception):
    """Anything that apportion raises on purpose; its text is fit for a person."""


class BrokenInput(ApportionError):  # noqa: N818 - named after what is broken, as the tree above reads
    """An object can never work as written.

    `field` is the path inside the object (`spec.devices.requests[0].exactly.selectors[1]`), "" if it is
    the object as a whole.
    """

    def __init__(self, reason: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class SelectorError(BrokenInput):
    """A CEL selector that does not compile, or that fails on a device."""


class TooMuch(BrokenInput):
    """More results, configs or requests than the API takes."""


class BrokenNode(ApportionError):  # noqa: N818
    """Only this node's slices are at fault."""


class ApiError(ApportionError):
    """The API server refused a request; `status` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Overtaken(ApiError):  # noqa: N818
    """Somebody wrote the object first (HTTP 409, or a precondition that no longer holds)."""


class Missing(ApiError):  # noqa: N818
    """The object is not there (HTTP 404)."""


class Expired(ApiError):  # noqa: N818
    """The version that a watch started from is too old (HTTP 410)."""


class Unreachable(ApiError):  # noqa: N818
    """The server did not answer, or asked to come back later (HTTP 429, 5xx)."""


class NotLeading(ApportionError):  # noqa: N818
    """This replica may not write: it holds no lease, or not for long enough."""


class NotReady(ApportionError):  # noqa: N818
    """What is asked for depends on something that has not happened yet; trying again is right."""


class HardwareError(ApportionError):
    """A vendor's driver refused."""


class Busy(HardwareError):  # noqa: N818
    """A process still uses the partition."""


class NoRoom(HardwareError):  # noqa: N818
    """No free place for the partition, or the place is taken by one that we half made ourselves."""


class Unsupported(HardwareError):  # noqa: N818
    """This hardware, driver or mode cannot do it."""


class Lost(HardwareError):  # noqa: N818
    """The device does not answer any more."""
