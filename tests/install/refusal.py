"""What an API server is expected to forbid."""

import pytest

from testbed.errors import ApiError


class refused:  # noqa: N801 - reads as a word: `with refused("own node")`
    """Expect that the API server forbids a request, for this reason."""

    def __init__(self, reason: str, *, status: int = 422) -> None:
        self._raises = pytest.raises(ApiError)
        self._reason = reason
        self._status = status

    def __enter__(self) -> None:
        self._caught = self._raises.__enter__()

    def __exit__(self, *failure: object) -> bool:
        swallowed = self._raises.__exit__(*failure)  # type: ignore[arg-type]
        assert self._reason in self._caught.value.message
        assert self._caught.value.status == self._status, self._caught.value
        return swallowed
