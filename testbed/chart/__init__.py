"""The Helm chart, written from the kustomize base: one source, two ways to install."""
