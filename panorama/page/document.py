"""An answer comes in; a self-contained HTML page goes out on which to review its hits with yes and no."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from panorama.cameras.listed_videos import replaced_remarks
from panorama.lines import clock, counted, one_line, shell_line, shell_word
from panorama.page.frames import Frame, frames_on_page
from panorama.page.tiles import BANDS, Tile, tiles_of
from panorama.query.result.result import Result
from panorama.query.text.undecided import told_on_page
from panorama.shown.hit_frames import NoFrame, stamps_of
from panorama.shown.track_boxes import TrackBoxes
from panorama.store import check_name
from panorama.store.files.outputs import check_output, whole_file

if TYPE_CHECKING:
    from panorama.library import Library

MOST = 200
"""Default number of hits on a page: about ten megabytes, and as much as a person looks through."""

PAGE_SUFFIXES = (".html", ".htm")

EFFECT = (
    "A yes puts the track in the answer and makes the small picture an example of the entity; it helps most "
    "on uncertain tracks. A no keeps out the track, and whatever could be a picture of it."
)
"""What marks do, by decisions 64 and 65."""

UNNAMED = (
    "These rows name no entity. Say yes to the hits that show one thing, and write its name above the hits."
    " The command that registers it stands at the end of the page. Then take back all marks, and go on with"
    " the next thing."
)

_BUTTONS = (
    '<div class="marks">'
    '<button type="button" class="say-yes" data-say="yes" aria-pressed="false">Yes</button>'
    '<button type="button" class="say-no" data-say="no" aria-pressed="false">No</button></div>'
)


@dataclass(frozen=True, slots=True)
class PageReport:
    """What a page shows.

    Attributes:
        shown: number of hits on the page.
        hits: number of hits in the answer; all rows of a track are one hit.
        size: of the file, in bytes.
        failed: videos of which a frame could not be shown, and why.
        left_out: rows whose time lies outside any possible video.
        warnings: remarks about videos whose files are no longer what was indexed; the page shows them, too.
    """

    shown: int
    hits: int
    size: int
    failed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_page(out: Path, videos: Collection[str] = ()) -> None:
    """Raise UsageError if the file's suffix is not that of a page, or if something else lies at the path.

    Args:
        videos: uris of the library's videos.
    """
    check_output(out, PAGE_SUFFIXES, what="a page", videos=videos)


def write_page(
    library: Library,
    result: Result,
    out: Path,
    *,
    entity: str | None = None,
    most: int = MOST,
) -> PageReport:
    """Write an answer as a page, whole or not at all.

    Args:
        library: the library that gave the answer.
        result: rows with a video and a time; see `tiles_of`.
        out: an .html file.
        entity: the entity for rows that name a track and no entity, see `tiles_of`; None for the only one
            that the SQL names.
        most: most hits on the page; if there are more, the first ones of the answer.

    Raises:
        UsageError: `out` has another suffix, or is a video or one of a library's own files.
        EntityError: no entity can have the name.
        QueryError: the answer has no video and time.
        LibraryWriteError: the file cannot be written.
    """
    entity = check_name(entity) if entity else None
    videos = library.videos()
    paths = {row["video"]: row["uri"] for row in videos.to_pylist()}
    check_page(out, set(paths.values()))
    tiles, hits, left_out = tiles_of(library, result, entity, most, videos)
    warnings = replaced_remarks({tile.hit.video for tile in tiles}, videos)
    tracks = TrackBoxes.of(library)
    frames = frames_on_page(tiles, paths, stamps_of([tile.hit for tile in tiles], tracks))
    remarks = [*_remarks(result, hits, tiles), *warnings]
    # Use the full path: people open a page days later and from elsewhere.
    command = ("panorama", "--library", str(library.path))
    album = library.snapshot().entity_names
    text = _document(result, remarks, tiles, frames, command, album)
    data = text.encode("utf-8")
    with whole_file(out) as partial:
        partial.write_bytes(data)
    failed = dict.fromkeys(frame.error for frame in frames if isinstance(frame, NoFrame))
    return PageReport(len(tiles), hits, len(data), tuple(failed), tuple(left_out), warnings)


def _document(
    result: Result,
    remarks: Sequence[str],
    tiles: Sequence[Tile],
    frames: Sequence[Frame | NoFrame],
    command: Sequence[str],
    album: Sequence[str],
) -> str:
    shown = [
        _tile(number, tile, frame) for number, (tile, frame) in enumerate(zip(tiles, frames, strict=True))
    ]
    names = list(dict.fromkeys(tile.hit.entity for tile in tiles))
    heading = _heading(names)
    script, style = _part("page.js"), _part("page.css")
    data = {
        "call": shell_line(command),
        "digest": _digest(result.sql, *shown),
        "entities": [{"name": name, **_register(command, name, name in album)} for name in names],
    }
    return _filled(
        _part("page.html"),
        {
            "policy": _policy(script, style),
            "style": style,
            "script": script,
            # Nothing is unescaped inside a script element, but a closing tag could end it.
            "data": json.dumps(data).replace("<", "\\u003c"),
            "title": _text(f"{heading}: {counted(len(tiles), 'hit')}"),
            "heading": _text(heading),
            "summary": _text(_summary(result, tiles)),
            "sql": "\n".join(map(_text, result.sql.strip().splitlines())) or "(not known)",
            "remarks": "\n".join(f'<p class="remark">{_text(told)}</p>' for told in remarks),
            "effect": EFFECT,
            "tiles": "\n".join(shown),
        },
    )


def _part(name: str) -> str:
    """The text of a file next to this one, in a checkout or in the wheel."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Fill the template's {{places}} in one pass, so that braces inside a value stay as they are."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], template)


def _policy(script: str, style: str) -> str:
    """The page's content security policy: only its own pictures, styles and script, and no network."""
    of_script, of_style = (
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
        for text in (script, style)
    )
    return (
        f"default-src 'none'; img-src data:; script-src '{of_script}'; style-src '{of_style}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(*texts: str) -> str:
    """The key of this page's marks in a browser; the same answer, written again, has the same key."""
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()[:16]


def _register(command: Sequence[str], name: str, known: bool) -> dict[str, str]:
    """The command that registers an entity: the parts before and after the ids of tracks and crops.

    Args:
        known: whether the entity exists; the command then does not create it again if it was renamed
            meanwhile.
    """
    head = [*command, "register", *(["--known"] if known else [])]
    if name.startswith("-"):
        return {"head": shell_line(head), "tail": f" -- {shell_word(name)}"}
    return {"head": shell_line([*head, name]), "tail": ""}


def _heading(names: Sequence[str]) -> str:
    named = [name for name in names if name]
    if not named:
        return "Hits"
    return ", ".join(named) if len(named) <= 3 else f"{len(named)} entities"


def _summary(result: Result, tiles: Sequence[Tile]) -> str:
    bands = Counter(tile.hit.band for tile in tiles)
    parts = [counted(len(tiles), "hit")]
    parts += [f"{bands[band]} {band}" for band in BANDS if bands[band]]
    videos = len({video for tile in tiles for video in tile.videos})
    parts += [f"in {counted(videos, 'video')}"] if tiles else []
    told = ", ".join(parts)
    if all(tile.rows == 1 for tile in tiles):
        return told
    copies = any(len(tile.videos) > 1 for tile in tiles)
    of_copies = ", in all videos of the same content," if copies else ""
    return f"{told}. All rows of a track{of_copies} are one hit; the answer has {len(result)} rows."


def _remarks(result: Result, hits: int, tiles: Sequence[Tile]) -> list[str]:
    told = list(result.warnings)
    if not tiles:
        told.append("Nothing was found.")
    if len(tiles) < hits:
        told.append(
            f"These are the first {len(tiles)} of {hits} hits, in the order of the answer. For all of them, "
            f"write the page with --page-hits {hits} (Library.page: most={hits}), or narrow the query."
        )
    if any(tile.mark is not None and not tile.hit.entity for tile in tiles):
        told.append(UNNAMED)
    if result.uncertain:
        told.append(told_on_page(result.uncertain, result.sql, result.uncertain_of))
    return told


def _tile(number: int, tile: Tile, frame: Frame | NoFrame) -> str:
    """One hit as HTML: its pictures, its facts, and two buttons."""
    hit, mark = tile.hit, tile.mark
    what = " ".join(part for part in (hit.entity, hit.band, "at", _shown_at(tile)) if part)
    data = {"entity": hit.entity, "band": hit.band}
    data |= {} if hit.score is None else {"score": f"{hit.score:.6f}"}
    if mark is not None:
        data |= {"kind": mark.kind, "number": str(mark.number), "picture": mark.digest}
    attributes = "".join(f' data-{name}="{html.escape(value)}"' for name, value in data.items())
    stored = "" if tile.stored is None else _picture(tile.stored, "The picture that a yes or no registers")
    buttons = _BUTTONS if mark is not None else f'<p class="unmarkable">{_text(tile.unmarkable)}</p>'
    return (
        f'<li class="tile" id="hit-{number}" tabindex="-1" aria-label="{_text(what)}"{attributes}>'
        f'<div class="frame {hit.band if hit.band in BANDS else ""}">{_framed(frame, tile, what)}</div>'
        f'<div class="facts">{stored}<div>{_facts(tile, frame)}</div></div>{buttons}</li>'
    )


def _framed(frame: Frame | NoFrame, tile: Tile, what: str) -> str:
    if isinstance(frame, NoFrame):
        return f"<p>{_text(frame.told)}</p>"
    picture = _picture(frame.jpeg, f"{what}, {tile.hit.video}")
    if tile.hit.box_xyxy is None:
        return picture
    x1, y1, x2, y2 = tile.hit.box_xyxy
    box = f'x="{x1:.1f}" y="{y1:.1f}" width="{max(x2 - x1, 1):.1f}" height="{max(y2 - y1, 1):.1f}"'
    return (
        f'{picture}<svg viewBox="0 0 {frame.width} {frame.height}" aria-hidden="true">'
        f'<rect class="under" {box}/><rect class="over" {box}/></svg>'
    )


def _shown_at(tile: Tile) -> str:
    """Of when the frame is that a tile shows: the name of a folder's picture, or its time."""
    return tile.picture or clock(tile.hit.time_seconds)


def _when(tile: Tile) -> str:
    """Of when the rows of a tile are: the names of the first and the last picture, or times."""
    several = f" in {tile.stretches} stretches" if tile.stretches > 1 else ""
    if tile.pictures or tile.end_seconds <= tile.start_seconds:
        return (tile.pictures or clock(tile.hit.time_seconds)) + several
    start, end = clock(tile.start_seconds), clock(tile.end_seconds)
    return f"between {start} and {end}{several}" if several else f"{start} to {end}"


def _facts(tile: Tile, frame: Frame | NoFrame) -> str:
    hit, copies = tile.hit, tile.videos[1:]
    band = f'<span class="band {hit.band}">{_text(hit.band)}</span>' if hit.band in BANDS else _text(hit.band)
    sure = [f"score {hit.score:.2f}"] if hit.score is not None else []
    sure += [f"similarity {hit.similarity:.2f}"] if hit.similarity is not None else []
    when, shown = _when(tile), _shown_at(tile)
    rows = f", {tile.rows} rows" if tile.rows > 1 else ""
    lines = {
        "who": _text(hit.entity or "not named"),
        "sure": f'{band} <span class="score">{_text(", ".join(sure))}</span>',
        "where": _text(hit.video + (f", also {', '.join(copies)}" if copies else "")),
        "when": _text(when + rows),
    }
    if when != shown and isinstance(frame, Frame):
        lines["shown"] = _text(f"shown: {shown}")
    if tile.clock:
        lines["when clock"] = tile.clock
    if hit.thing():
        lines["id"] = hit.thing()
    return "".join(f'<p class="{name}">{line}</p>' for name, line in lines.items())


def _picture(jpeg: bytes, alt: str) -> str:
    data = base64.b64encode(jpeg).decode()
    return f'<img src="data:image/jpeg;base64,{data}" alt="{_text(alt)}" decoding="async">'


def _text(text: str) -> str:
    """User text in HTML, also inside quotes: escaped, with unprintable characters as escapes."""
    return html.escape(one_line(text))
