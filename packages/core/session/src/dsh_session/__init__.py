"""The append-only session log and its derivations."""
