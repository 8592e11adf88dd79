"""Example images come in; vectors go out for the ways in which each might be seen.

A single example is one crop of one moment. A slightly tighter or shifted box, the mirrored picture, another
angle or other light gives another vector, and none of them is the right one. Each is compared as an example
of its own. So is their mean, which lies in the middle of the vectors that the crops of a track scatter
around. Crops of videos are embedded as they are: a track has several of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.crops import cut, decode_picture
from panorama.errors import BadImage
from panorama.models.base import Embedder, Image
from panorama.query.stopping import check_stopped
from panorama.store import Exemplar, Snapshot, Store


def part(x1: float, y1: float, x2: float, y2: float) -> Callable[[Image], Image]:
    """Returns a view: the part between two corners, given as shares of the picture's sides."""

    def cut_part(rgb: Image) -> Image:
        height, width = rgb.shape[:2]
        corners = np.array([x1 * width, y1 * height, x2 * width, y2 * height], np.float32)
        return np.ascontiguousarray(cut(rgb, corners))

    return cut_part


def _framed(rgb: Image) -> Image:
    """An eighth more on each side, mirrored at the edges, as if the box had been drawn wider."""
    dy, dx = (max(1, side // 8) for side in rgb.shape[:2])
    return np.asarray(cv2.copyMakeBorder(rgb, dy, dy, dx, dx, cv2.BORDER_REFLECT_101), np.uint8)


def tilted(degrees: float) -> Callable[[Image], Image]:
    """Returns a view: the picture turned anticlockwise, whole, with its edges drawn out into the corners."""

    def turn(rgb: Image) -> Image:
        height, width = rgb.shape[:2]
        turned = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
        cosine, sine = abs(turned[0, 0]), abs(turned[0, 1])
        size = max(1, round(height * sine + width * cosine)), max(1, round(height * cosine + width * sine))
        turned[:, 2] += (size[0] - width) / 2, (size[1] - height) / 2
        return np.asarray(cv2.warpAffine(rgb, turned, size, borderMode=cv2.BORDER_REPLICATE), np.uint8)

    return turn


def lit(share: float) -> Callable[[Image], Image]:
    """Returns a view with this share of the light; values are clipped at white."""
    return lambda rgb: np.clip(np.rint(rgb * np.float32(share)), 0, 255).astype(np.uint8)


GEOMETRY: Mapping[str, Callable[[Image], Image]] = {
    "as it is": lambda rgb: rgb,
    "mirrored": lambda rgb: np.ascontiguousarray(rgb[:, ::-1]),
    "middle": part(0.08, 0.08, 0.92, 0.92),
    "upper left": part(0, 0, 0.85, 0.85),
    "upper right": part(0.15, 0, 1, 0.85),
    "lower left": part(0, 0.15, 0.85, 1),
    "lower right": part(0.15, 0.15, 1, 1),
    "wider": _framed,
}
LIGHT: Mapping[str, Callable[[Image], Image]] = {"brighter": lit(1.3), "darker": lit(0.7)}

TILT: Mapping[str, Callable[[Image], Image]] = {"tilted left": tilted(20), "tilted right": tilted(-20)}

VIEWS: Mapping[str, Callable[[Image], Image]] = {**GEOMETRY, **LIGHT, **TILT}
"""Ways of seeing an example; measurements decided which are used (DECISIONS 61, 63 and 218)."""


def views_of(embedder: Embedder) -> Mapping[str, Callable[[Image], Image]]:
    """The views of an example that an embedder gets."""
    return GEOMETRY if embedder.of_colour_alone else VIEWS


EXAMPLES = "album"
"""Name of work that only one process at a time does; see `panorama.store.claims`."""

BATCH = 32
"""Number of registered pictures that are embedded and stored at a time when they are embedded again."""


def embed_examples(pictures: Sequence[Image], embedder: Embedder) -> NDArray[np.float32]:
    """Vectors of unit length for all views of the examples at every exit: (exits, B, V, dim) float32."""
    ways = views_of(embedder)
    vectors = embedder.embed_all(
        [view(rgb) for rgb in pictures for view in ways.values()]
    )  # (exits, B * V, dim)
    return vectors.reshape(len(vectors), len(pictures), len(ways), vectors.shape[-1])


def lacking(snapshot: Snapshot, embedder: Embedder) -> bool:
    """Whether a registered picture lacks some of its vectors under a model."""
    counts = snapshot.entities
    pictures = sum(counts.column("exemplars").to_pylist()) + sum(counts.column("negatives").to_pylist())
    held = min(len(snapshot.album(embedder.hash, exit)) for exit in range(1, embedder.exits + 1))
    return held < pictures * len(views_of(embedder))


def embed_exemplars(store: Store, embedder: Embedder) -> int:
    """Embed registered pictures that lack vectors of this model or of some views; returns how many.

    A picture that can no longer be read keeps the vectors that it has. If another process is doing this, wait
    for it.

    Raises:
        LibraryWriteError: the library cannot be written.
    """
    if not _waiting(store, embedder):
        return 0
    store.check_writable()
    others = "another process is embedding example pictures"
    with store.claims() as claims, claims.alone(EXAMPLES, others, check_stopped):
        waiting, done = _waiting(store, embedder), 0
        for start in range(0, len(waiting), BATCH):
            check_stopped()
            done += _embed_and_keep(store, embedder, waiting[start : start + BATCH])
    return done


def _waiting(store: Store, embedder: Embedder) -> list[Exemplar]:
    return store.missing_exemplar_vectors(embedder.hash, embedder.exits, len(views_of(embedder)))


def _embed_and_keep(store: Store, embedder: Embedder, waiting: Sequence[Exemplar]) -> int:
    pictures, known = [], []
    for exemplar in waiting:
        with contextlib.suppress(OSError, BadImage):
            pictures.append(decode_picture(exemplar.picture.read_bytes(), str(exemplar.picture)))
            known.append(exemplar)
    if known:
        vectors = embed_examples(pictures, embedder)  # (exits, B, V, dim)
        exits = range(embedder.exits)
        store.put_exemplar_vectors(
            {
                exemplar.exemplar_id: {(embedder.hash, e + 1): vectors[e, i] for e in exits}
                for i, exemplar in enumerate(known)
            }
        )
    return len(known)
