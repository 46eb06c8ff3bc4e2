"""Why no node can serve a demand."""
