"""Values enter, rows of the catalog leave and come back: videos, album, zones, settings."""
