"""Values come in and are stored as rows of the catalog; the same values go out: videos, album, settings."""
