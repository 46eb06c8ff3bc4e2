"""The exceptions of apportion, and what the caller does about them.

ApportionError
├── BrokenInput          an object can never work as written; names field and reason
│   ├── SelectorError        a CEL text that does not compile, or fails on a device
│   ├── TooMuch              more results, configs or requests than the API takes
│   └── UnsuitableConfiguration  parameters that are not for the devices that a claim would get
├── ApiError             the API server refused, or did not answer
│   ├── Overtaken            another writer was first: read again (409, failed precondition)
│   ├── Missing              the object is not there (404)
│   ├── Expired              the watch's version is too old: list again (410)
│   ├── Oversized            the answer is larger than the caller takes: ask for less
│   └── Unreachable          nothing was done: no connection, or an answer that says to try later (429)
│       └── Unanswered       nobody knows what was done: no answer, or one that does not say (5xx, no JSON)
├── NotLeading           the lease is gone or about to go: write nothing
├── NotReady             something else must happen first: try again later
└── HardwareError        the driver said no
    ├── Busy                 a process still holds the partition
    │   └── Occupied             programs use the device: the driver has begun nothing
    ├── NoRoom               no free place, or an unfinished partition of ours is there
    ├── Unsupported          this hardware or driver cannot do it, now or ever
    └── Lost                 the device left the bus
        └── Silent               it has not answered yet, and may have done what it was asked for
"""


class ApportionError(Exception):
    """Base class of what apportion raises on purpose; its text is a message for users."""

    @property
    def kind(self) -> str:
        """Its name, as conditions have it."""
        return type(self).__name__


class BrokenInput(ApportionError):  # noqa: N818 - named after what is broken
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

    def bare(self) -> "SelectorError":
        """Return it without where it was raised: who keeps it would keep all values of the evaluation, megabytes of them."""
        self.__context__ = None
        return self.with_traceback(None)


class TooMuch(BrokenInput):
    """More results, configs or requests than the API takes."""


class UnsuitableConfiguration(BrokenInput):
    """Parameters of a claim, or of its class, are not for the devices that it would get; `claim` is `namespace/name`."""

    def __init__(self, error: BrokenInput, *, claim: str) -> None:
        super().__init__(error.reason, field=error.field)
        self.claim = claim


class ApiError(ApportionError):
    """The API server refused a request; `status` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Overtaken(ApiError):  # noqa: N818
    """Another writer changed the object first (HTTP 409, or a precondition that no longer holds)."""


class Missing(ApiError):  # noqa: N818
    """The object is not there (HTTP 404)."""


class Expired(ApiError):  # noqa: N818
    """The version that a watch started from is too old (HTTP 410)."""


class Oversized(ApiError):  # noqa: N818
    """The answer has more bytes than the caller takes."""


class Unreachable(ApiError):  # noqa: N818
    """The request did not reach the server, or the server asked to come back later (HTTP 429): nothing was done.

    `retry_after` is how many seconds the server wants to be left alone (header Retry-After), a minute at most; 0: it does not say.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class Unanswered(Unreachable):
    """The server did not say whether it carried out the request, and may do so later.

    A time-out, a connection that broke, HTTP 5xx (etcd's answer may be lost after the commit), or an answer that is no object of the API.
    """


class NotLeading(ApportionError):  # noqa: N818
    """This replica may not write: it holds no lease, or not for long enough."""


class NotReady(ApportionError):  # noqa: N818
    """Something that the request depends on has not happened yet; the caller tries again."""


class HardwareError(ApportionError):
    """A vendor's driver refused."""


class Busy(HardwareError):  # noqa: N818
    """A process still uses the partition, or the driver did not answer in time and may still act."""


class Occupied(Busy):
    """Programs use the device, so that the driver refused at once: nothing was begun, and nothing comes later."""

    @property
    def kind(self) -> str:
        """As that of one that may still act: for users it is the same."""
        return Busy.__name__


class NoRoom(HardwareError):  # noqa: N818
    """No free place for the partition, or an unfinished partition of ours is in its place."""


class Unsupported(HardwareError):  # noqa: N818
    """This hardware, driver or mode cannot do it."""


class Lost(HardwareError):  # noqa: N818
    """The device does not answer any more."""


class Silent(Lost):
    """The device has not answered in time: it may be well, and nobody knows what it has done."""

    @property
    def kind(self) -> str:
        """As that of one that does not answer any more: for users it is the same."""
        return Lost.__name__
