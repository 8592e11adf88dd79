"""Cached sightings in the catalog: bytes of one entity under a key enter, and leave while the entity lives.

They are erased with the entity (its rows go in the same statement), so what is forgotten is forgotten here.
"""

from __future__ import annotations

import time

from panorama.store.catalog.database import Transaction

CACHE_BYTES = 256 << 20

_CACHED = """
SELECT c.value FROM sightings_cache c JOIN entities e ON e.entity_id = c.entity_id
WHERE e.name = :entity AND c.key = :key
"""
_PUT = """
INSERT INTO sightings_cache (entity_id, key, value, bytes, used_at)
SELECT entity_id, :key, :value, :bytes, :now FROM entities WHERE name = :entity
ON CONFLICT (entity_id, key) DO UPDATE
SET value = excluded.value, bytes = excluded.bytes, used_at = excluded.used_at
"""
_OLDEST_BEYOND = """
DELETE FROM sightings_cache WHERE (entity_id, key) IN (
    SELECT entity_id, key FROM (
        SELECT entity_id, key, sum(bytes) OVER (ORDER BY used_at DESC, entity_id, key) AS running
        FROM sightings_cache) ranked
    WHERE running > :limit)
"""
_CLEAR = "DELETE FROM sightings_cache"


def get(tx: Transaction, entity: str, key: str) -> bytes | None:
    """What was cached of an entity under a key that holds all that changes it."""
    value = tx.scalar(_CACHED, entity=entity, key=key)
    return None if value is None else bytes(value)


def put(tx: Transaction, entity: str, key: str, value: bytes, limit_bytes: int = CACHE_BYTES) -> None:
    """Cache something of an entity, if there still is one; the oldest go when all exceed `limit_bytes`."""
    tx.run(_PUT, entity=entity, key=key, value=value, bytes=len(value), now=time.time())
    tx.run(_OLDEST_BEYOND, limit=limit_bytes)


def clear(tx: Transaction) -> None:
    """Drop everything that is cached."""
    tx.run(_CLEAR)
