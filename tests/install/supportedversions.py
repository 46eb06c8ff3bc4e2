"""The versions of Kubernetes that are supported: tests of a class that inherits from one of these run on it.

In: the control planes with the production install. Out: `cluster`, of the default version or of the oldest one.
"""

import pytest

from testbed.controlplane import ControlPlane


class OnDefault:
    @pytest.fixture
    def cluster(self, installed: ControlPlane) -> ControlPlane:
        return installed


class OnOldest:
    @pytest.fixture
    def cluster(self, oldest_installed: ControlPlane) -> ControlPlane:
        return oldest_installed
