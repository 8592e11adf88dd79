"""Cached sightings of an entity come in as bytes with a key; the same bytes go out while the entity exists.

Deleting the entity deletes them in the same statement (ON DELETE CASCADE), so forgetting covers them.
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
    """The cached bytes of an entity, or None; the key must name everything that they depend on."""
    value = tx.scalar(_CACHED, entity=entity, key=key)
    return None if value is None else bytes(value)


def put(tx: Transaction, entity: str, key: str, value: bytes, limit_bytes: int = CACHE_BYTES) -> None:
    """Cache bytes of an entity if it still exists; delete the oldest entries beyond `limit_bytes` in all."""
    tx.run(_PUT, entity=entity, key=key, value=value, bytes=len(value), now=time.time())
    tx.run(_OLDEST_BEYOND, limit=limit_bytes)


def clear(tx: Transaction) -> None:
    """Delete the whole cache."""
    tx.run(_CLEAR)
