"""Bundle of the rows every profile stands on; its payload is `cordis.patch.yml`."""
