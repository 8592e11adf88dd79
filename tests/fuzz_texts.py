"""A number enters, a text leaves: SQL of the docs and of the tests, mutated; the same text for one number."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"

SEEDS = [
    "SELECT frames WHERE entity = 'dog' AND (entity = 'red-van' OR NOT score >= 0.5) LIMIT 3",
    "SELECT moments WHERE entity = 'dog' FOLLOWED BY entity = 'dog' WITHIN INTERVAL 9 HOURS AND x1 < 9",
    "SELECT tracks WHERE camera LIKE 'g%' ORDER BY similarity('a.jpg') DESC, track_id LIMIT 5 OFFSET 1",
    "SELECT count(*) FROM (SELECT frames WHERE entity IN ('dog', NULL) AND time BETWEEN 1 AND 2) WHERE x1>3",
    "WITH a AS (SELECT crops WHERE area > 10) SELECT video, max(x1) FROM a GROUP BY 1 HAVING count(*) > 1",
    "SELECT moments WHERE (entity = 'dog' AND band = 'uncertain') OR NOT (entity LIKE 'r%' AND end_time > 4)",
    "SELECT verify('a.jpg', 'a.jpg'), similarity('a.jpg') FROM crops UNION ALL SELECT true, 1.0",
    "EXPLAIN SELECT frames WHERE entity IS NULL UNION SELECT frames WHERE width * 2 > height",
    "CREATE ENTITY 'x' FROM 'a' NOT FROM 'b'",
    "SELECT frames WHERE entity = 'dog' AND inside('door') WITH PRECISION >= 0.95",
    "SELECT frames WHERE entity = 'dog' AND near(entity, 'red-van', 40) AND NOT crosses('line')",
    "SELECT moments WHERE entity = 'dog' AND time BETWEEN '2026-03-01 10:00' AND '10:30' WITHIN 10 SECONDS",
    "SELECT frames WHERE left_of('dog', 'red-van') AND time >= TIMESTAMP '2026-03-01 10:00:00' LIMIT 2",
    "SELECT * FROM read_text('{canary}') UNION ALL SELECT * FROM read_text('/etc/hostname')",
    "COPY (SELECT * FROM videos) TO '{canary}.out'; ATTACH '{canary}' AS x",
    "WITH x AS (SELECT * FROM glob('{folder}/*')) SELECT * FROM x, read_csv('{canary}'), '{canary}'",
    "SELECT similarity('../{name}') FROM crops WHERE verify('{canary}', 'a.jpg') IS NULL",
    "FROM videos SELECT video, similarity(4294967306) AS s QUALIFY row_number() OVER (ORDER BY s) = 1",
    "EXPLAIN ANALYZE SELECT moments WHERE NOT entity = 'dog' AND duration > 3 ORDER BY start_time DESC",
    "ALTER ENTITY 'dog' ADD NOT 'a.jpg'; DROP ENTITY IF EXISTS 'dog'; FORGET ENTITY 'dog' WITH SIGHTINGS",
    "SELECT crops ORDER BY similarity('link.jpg') LIMIT 3",
    "SELECT frames, band, camera WHERE entity = 'dog' AND score >= 0 UNION SELECT frames, band, camera",
    "SHOW ENTITIES; DESCRIBE ENTITY 'dog'",
    "SELECT moments WHERE entity = 'dog' NOT FOLLOWED BY entity = 'red-van' WITHIN INTERVAL 3 SECONDS",
    "SELECT c.crop_id, similarity('a.jpg', c) AS s FROM crops c JOIN videos v USING (video) WHERE v.camera ="
    " 'gate' AND time < 3 AND inside('lawn', c) AND similarity('a.jpg', c) > 0.5 ORDER BY s DESC LIMIT 3",
    "SELECT count(*) FROM detections d JOIN videos v USING (video) WHERE crosses('kerb', 'in', d) AND camera"
    " <> 'yard'",
    "EXPLAIN ANALYZE SELECT s.entity, max(similarity('a.jpg', s)) FROM sightings s JOIN videos USING (video)"
    " WHERE entity = 'dog' AND camera = 'gate' GROUP BY 1",
]
PIECES = [
    *(
        "SELECT",
        "frames",
        "moments",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        ",",
        ";",
        "'",
        '"',
        "--",
        "/*",
        "*/",
    ),
    *(
        "entity",
        "score",
        "time",
        "=",
        "<",
        "'dog'",
        "NULL",
        "IN",
        "BETWEEN",
        "FOLLOWED BY",
        "WITHIN",
        "INTERVAL",
    ),
    *(
        "$$",
        "?",
        "$a",
        "1e999",
        "-1",
        "0x",
        "é",
        "\\",
        "\n",
        "similarity(",
        "verify(",
        "CASE",
        "END",
        "ORDER BY",
    ),
    *(
        "LIMIT",
        "FROM",
        "UNION",
        "WITH",
        "AS",
        "::",
        "[",
        "]",
        "{",
        "}",
        "lambda x:",
        "\t",
        "ALL",
        "*",
        "EXISTS (",
    ),
    *(
        "inside(",
        "crosses(",
        "left_of(",
        "near(",
        "WITH PRECISION >=",
        "WITHIN 3 SECONDS",
        "SECONDS",
        "EXPLAIN",
    ),
    *(
        "read_text(",
        "glob(",
        "query(",
        "COPY",
        "TO",
        "'{canary}'",
        "read_blob('{canary}')",
        "ATTACH",
        "PRAGMA",
    ),
    *(
        "INSERT INTO",
        "SET",
        "getenv('HOME')",
        "INSTALL",
        "LOAD",
        "CALL",
        "'10:00'",
        "'2026-03-01'",
        "COLUMNS(",
    ),
]


SWAPS = [
    ["frames", "moments", "tracks", "crops", "detections", "sightings", "videos", "entities"],
    [
        "entity",
        "score",
        "time",
        "video",
        "camera",
        "frame",
        "x1",
        "band",
        "area",
        "start_time",
        "track_id",
        "quality",
    ],
    ["'dog'", "'red-van'", "'blue-van'", "'uncertain'", "'gate-1.mp4'", "NULL", "''"],
    ["=", "<", ">=", "<>", "IS NOT DISTINCT FROM", "LIKE", "~"],
    ["AND", "OR", "AND NOT", "OR NOT", "FOLLOWED BY", "DURING", "OVERLAPS", "NOT FOLLOWED BY"],
    ["0", "1", "0.5", "3", "9", "30", "60", "90", "1e30"],
    ["inside", "crosses", "left_of", "near", "similarity", "verify", "lower"],
    ["'lawn'", "'kerb'", "'mat'", "'in'", "'out'", "'centre'", "'a.jpg'", "'b.jpg'"],
    ["SECOND", "SECONDS", "MINUTES", "HOURS", "DAYS"],
    ["clock", "start_clock", "end_clock", "end_time", "track_id", "camera"],
    ["DESC", "ASC", "NULLS FIRST"],
    ["UNION", "UNION ALL", "EXCEPT", "INTERSECT"],
]


def swap(rng: random.Random, text: str) -> str:
    """Words replaced by others of their kind, so that most of what comes out can be parsed."""
    words = re.split(r"('[^']*'|[\w.]+|[<>=]+)", text)
    for _ in range(rng.randint(1, 6)):
        i = rng.randrange(len(words))
        for group in SWAPS:
            if words[i] in group:
                words[i] = rng.choice(group)
    return "".join(words)


def mutate(rng: random.Random, texts: list[str]) -> str:
    text = swap(rng, rng.choice(texts))
    if rng.random() < 0.6:
        return text
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + rng.randint(1, 8) :]
        elif kind == 1:
            text = f"{text[:at]} {rng.choice(PIECES)} {text[at:]}"
        elif kind == 2:
            words = text.split(" ")
            rng.shuffle(words) if rng.random() < 0.1 else words.insert(
                rng.randrange(len(words)), rng.choice(PIECES)
            )
            text = " ".join(words)
        elif kind == 3:
            other = rng.choice(texts)
            text = text[:at] + other[rng.randrange(len(other)) :]
        else:
            text = text[:at] + rng.choice("()',;=<>*$?\"\\ 0\u00e9") + text[at + 1 :]
    return text


def texts(seed: int, first: int, count: int) -> Iterator[tuple[int, str]]:
    """Texts by number: the same number gives the same text, whatever comes before it."""
    plain = [line for line in (FIXTURES / "plain_selects.sql").read_text("utf-8").splitlines()[1:] if line]
    page = (FIXTURES.parent.parent / "docs" / "SQL.md").read_text("utf-8")
    spoken = SEEDS + [
        statement.strip()
        for block in re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        for statement in block.split(";\n")
        if statement.strip()
    ]
    for number in range(first, first + count):
        rng = random.Random(f"{seed}-{number}")
        yield number, mutate(rng, spoken if rng.random() < 0.7 else plain)
