"""Kubelets that speak the real protocols to the API server and to DRA plugins, and run no containers."""

from testbed.kubelet.kubelet import FakeKubelet

__all__ = ["FakeKubelet"]
