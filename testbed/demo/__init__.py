"""The demo: the whole product on one machine, watched."""
