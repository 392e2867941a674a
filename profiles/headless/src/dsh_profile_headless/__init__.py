"""Profile template: base and headless."""
