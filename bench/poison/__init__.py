"""A storm of poison in one tenant's namespace, and what another tenant notices of it."""
