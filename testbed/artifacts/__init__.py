"""What a version is published as: packages, manifests, chart, plugin, and what says what is in them and where they come from."""
