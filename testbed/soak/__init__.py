"""The whole product under random load while everything around it fails: `soakrun.py` is where to begin."""
