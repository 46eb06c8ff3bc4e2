"""Whether a selector makes sense, and what is known of it before any device is seen."""
