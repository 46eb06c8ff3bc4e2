"""Stateful fakes of vendor libraries: the C interface is faked, everything above it is the product."""
