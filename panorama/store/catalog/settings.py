"""Small values come in and are stored by key; settings, calibration, models and audit rows go out."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from panorama.store.catalog.database import Transaction
from panorama.store.catalog.decoded import Column

_ALL = "SELECT key, value FROM settings ORDER BY key"
_GET = "SELECT value FROM settings WHERE key = :key"
_PUT = """
INSERT INTO settings (key, value, version) VALUES (:key, :value, 1)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = settings.version + 1
"""
_DROP = "DELETE FROM settings WHERE key = :key"
_VALUES = Column(
    "settings.value",
    lambda _, value: json.loads(value),
    lambda key: f"the key {key!r}",
    lambda _, key: f"remove it, from Python: library.put_setting({key!r}, None)",
)
_PUT_MODEL = """
INSERT INTO models (hash, name, kind, dim, exits) VALUES (:hash, :name, :kind, :dim, :exits)
ON CONFLICT (hash) DO UPDATE SET name = excluded.name
"""
_MODELS = "SELECT hash, name, kind, dim, exits FROM models ORDER BY name, hash"
_AUDIT = "INSERT INTO audit (at, action, subject_hash, detail) VALUES (:at, :action, :subject, :detail)"
_SALTED = "salted:"
_SALT_OLD = f"""
UPDATE audit SET subject_hash = '{_SALTED}' || lower(hex(randomblob(32)))
WHERE subject_hash NOT LIKE '{_SALTED}%'
"""
_AUDIT_ROWS = "SELECT at, action, subject_hash, detail FROM audit ORDER BY audit_id"


Change: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Computes the settings to store from all settings, both by key."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model that computed vectors of this library, or that proposed its regions."""

    hash: str
    name: str
    kind: str
    dim: int
    exits: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What was erased and when. The name is hashed with a random salt: nobody can test a guess against it."""

    at_unix: float
    action: str
    subject_hash: str
    detail: str


def read_all(tx: Transaction) -> dict[str, Any]:
    """All settings by key."""
    rows = tx.rows(_ALL)
    return dict(zip([row.key for row in rows], _VALUES.of(tx, rows), strict=True))


def get(tx: Transaction, key: str, default: Any = None) -> Any:
    """One setting, or `default`."""
    value = tx.scalar(_GET, key=key)
    return default if value is None else _VALUES.one(tx, key, value)


def put(tx: Transaction, key: str, value: Any) -> None:
    """Store a JSON value; None removes it. Raise the version of the settings: answers may change."""
    if value is None:
        tx.run(_DROP, key=key)
    else:
        tx.run(_PUT, key=key, value=json.dumps(value))
    tx.bump("settings")


def put_model(tx: Transaction, model: ModelRow) -> None:
    """Store what a model hash stands for; only the name of a known hash changes."""
    tx.run(_PUT_MODEL, hash=model.hash, name=model.name, kind=model.kind, dim=model.dim, exits=model.exits)


def models(tx: Transaction) -> list[ModelRow]:
    """All models ever used in this library."""
    return [ModelRow(*row) for row in tx.rows(_MODELS)]


def audit(tx: Transaction, action: str, subject: str, detail: str) -> None:
    """Record an erasure, with only a salted hash of the subject; the salt is not kept.

    Without a salt, anyone who has the library could test names. Earlier versions wrote unsalted hashes, which
    are replaced by random ones.
    """
    tx.run(_SALT_OLD)
    digest = hashlib.sha256(os.urandom(32) + subject.encode()).hexdigest()
    tx.run(_AUDIT, at=time.time(), action=action, subject=f"{_SALTED}{digest}", detail=detail)


def audit_rows(tx: Transaction) -> list[AuditRow]:
    """All erasures, oldest first."""
    return [AuditRow(*row) for row in tx.rows(_AUDIT_ROWS)]
