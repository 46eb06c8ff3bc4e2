"""Stateful fakes of vendor libraries: only the C interface is faked, everything above it is the product."""
