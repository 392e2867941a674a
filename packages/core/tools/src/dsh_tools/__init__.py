"""Tool definitions, the scoped tool registry and the call pipeline."""
