"""A folder enters, the sample archive leaves in it: clips, album, look-alikes, and the truth about them.

    python data/render.py [OUT_DIR]

Everything is drawn from the scripts in scenery/; the same code gives the same pictures and the same truth.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import cv2  # noqa: E402
from scenery.camera import Camera  # noqa: E402
from scenery.clips import QUICK_SCENES, RECORDED, SCENES, SUBJECTS, Subject  # noqa: E402
from scenery.film import Model, Scene, Truth, photograph, shoot  # noqa: E402
from scenery.places import photo_backdrop  # noqa: E402

STAMP = "rendered.json"
SUNS = ((0.5, -0.6, 0.62), (-0.65, -0.4, 0.65), (0.1, -0.5, 0.86), (0.6, 0.2, 0.77))


class Sample(NamedTuple):
    """Where the rendered sample lies.

    Attributes:
        archive: the clips, one folder per camera; what `panorama index` is given.
        album: example pictures, one folder per entity; what `panorama register --album` is given.
        lookalikes: pictures of what resembles an entity, one folder per entity.
        truth: JSON: entity -> visible, ignore (video -> inclusive frame intervals) and boxes
            (video -> frame -> x1, y1, x2, y2 of the visible part, half-open).
        fresh: whether this call rendered it, or found it rendered.
    """

    archive: Path
    album: Path
    lookalikes: Path
    truth: Path
    fresh: bool


def code_version() -> str:
    """Hex digest of the files that decide what is drawn."""
    digest = hashlib.sha256()
    for path in [HERE / "render.py", *sorted((HERE / "scenery").glob("*.py"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def render(
    out_dir: Path, *, quick: bool = False, report: Callable[[str], None] = lambda line: None
) -> Sample:
    """Render the sample below `out_dir`, unless this very code has done so there before.

    Args:
        quick: only a few short clips and the whole album, for unit tests.
        report: is told of each clip that is done.
    """
    out_dir = Path(out_dir)
    stamp = {"version": code_version(), "quick": quick}
    fresh = not _stamped(out_dir, stamp)
    if fresh:
        for name in ("archive", "album", "lookalikes"):
            shutil.rmtree(out_dir / name, ignore_errors=True)
        (out_dir / STAMP).unlink(missing_ok=True)
        with _two_at_a_time() as pool:
            album = [pool.submit(_render_album, out_dir, entity) for entity in SUBJECTS]
            truths = _render_clips(pool, QUICK_SCENES if quick else SCENES, out_dir / "archive", report)
            for pictures in album:
                pictures.result()
        (out_dir / "truth.json").write_text(json.dumps(truth_of(truths), indent=1) + "\n")
        (out_dir / STAMP).write_text(json.dumps(stamp) + "\n")
    return Sample(
        out_dir / "archive", out_dir / "album", out_dir / "lookalikes", out_dir / "truth.json", fresh
    )


def _stamped(out_dir: Path, stamp: dict[str, object]) -> bool:
    try:
        return bool(json.loads((out_dir / STAMP).read_text()) == stamp)
    except (FileNotFoundError, json.JSONDecodeError):
        return False


@contextmanager
def _two_at_a_time() -> Iterator[ThreadPoolExecutor]:
    """Two workers of one thread each; a drawing has its own random numbers, so order does not matter.

    OpenCV keeps to what every processor of a kind has: with the instructions of newer ones it rounds
    otherwise, and golden answers on pictures of one machine would be others on the next.
    """
    threads, optimized = cv2.getNumThreads(), cv2.useOptimized()
    cv2.setNumThreads(1)
    cv2.setUseOptimized(False)
    try:
        with ThreadPoolExecutor(2) as pool:
            yield pool
    finally:
        cv2.setUseOptimized(optimized)
        cv2.setNumThreads(threads)


def _render_clips(
    pool: ThreadPoolExecutor,
    scripts: Iterable[Callable[[], Scene]],
    archive: Path,
    report: Callable[[str], None],
) -> dict[str, Truth]:
    """Shoot the scenes: video -> what it shows."""

    def one(script: Callable[[], Scene]) -> tuple[str, Truth]:
        begun = time.perf_counter()
        scene = script()
        truth = shoot(scene, archive / scene.video, RECORDED[scene.video])
        size = (archive / scene.video).stat().st_size
        seconds = time.perf_counter() - begun
        report(f"{scene.video}: {truth.frames} frames, {size / 1000:.0f} kB, {seconds:.1f} s")
        return scene.video, truth

    return dict(pool.map(one, scripts))


def truth_of(truths: dict[str, Truth]) -> dict[str, dict[str, object]]:
    """The truth in the form that scorers read; a video that is not named does not show the entity."""
    table: dict[str, dict[str, object]] = {}
    for entity in SUBJECTS:
        shown = {video: truth for video, truth in truths.items() if entity in truth.boxes}
        unsure = {video: truth.ignored(entity) for video, truth in truths.items()}
        table[entity] = {
            "visible": {video: truth.visible(entity) for video, truth in shown.items()},
            "ignore": {video: spans for video, spans in unsure.items() if spans},
            "boxes": {
                video: {str(frame): list(box) for frame, box in sorted(truth.boxes[entity].items())}
                for video, truth in shown.items()
            },
        }
    return table


def _render_album(out_dir: Path, entity: str) -> None:
    """Photograph one entity and its look-alikes, elsewhere and otherwise than in the archive."""
    subject = SUBJECTS[entity]
    for number in range(len(subject.headings)):
        _save(out_dir / "album" / entity / f"{number + 1}.jpg", subject.model, subject, number)
    for number, model in enumerate(subject.lookalikes):
        _save(out_dir / "lookalikes" / entity / f"{number + 1}.jpg", model, subject, number)


def _save(path: Path, model: Model, subject: Subject, number: int) -> None:
    """One photo: camera height, angle, sun and background differ from number to number."""
    reach = subject.reach
    height = (1.2, 0.75, 2.4, 4.2)[number] * reach
    distance = (4.6, 5.2, 4.2, 3.2)[number] * reach
    camera = Camera((0.4 * reach, -distance, height), (0, 0, subject.middle), 40, 360, 360)
    planes = photo_backdrop(subject.backdrops[number], 900 + 10 * number, reach)
    picture = photograph(model, camera, planes, subject.headings[number], SUNS[number], 0.12 + 0.25 * number)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 90])


def main() -> int:
    """Render from the command line."""
    parser = argparse.ArgumentParser(description="Render the sample archive.")
    parser.add_argument("out_dir", nargs="?", type=Path, default=Path("panorama-sample"))
    parser.add_argument("--quick", action="store_true", help="a few short clips only")
    arguments = parser.parse_args()
    sample = render(
        arguments.out_dir, quick=arguments.quick, report=lambda line: print(line, file=sys.stderr)
    )
    print(sample.archive.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
