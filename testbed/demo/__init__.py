"""The demo: the whole product on one machine, with its state on the screen."""
