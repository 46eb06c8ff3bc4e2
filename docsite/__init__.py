"""What the documentation site has beside the Markdown of docs/: pages made of the repository's other files."""
