"""apportion: an accelerator allocator for Kubernetes Dynamic Resource Allocation."""

__version__ = "0.1.0"
