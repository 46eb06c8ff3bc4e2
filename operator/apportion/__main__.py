"""Where apportion starts."""
