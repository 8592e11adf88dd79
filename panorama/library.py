"""The Python API: a directory comes in, a `Library` goes out that indexes, registers and answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panorama import waits
from panorama.album import registering
from panorama.album.entities import Entity
from panorama.album.forgetting import Seen, forget
from panorama.album.given_pictures import Image, Images, one_picture
from panorama.album.seen_pictures import seen_pictures
from panorama.api.album import LibraryAlbum
from panorama.api.models import LibraryModels
from panorama.api.named_frames import named_frame
from panorama.api.path import picture_folder
from panorama.arguments import Box, File, Ids, SeenIds, checked
from panorama.cameras.listed_videos import gone_remarks, names_of
from panorama.errors import UsageError, without_example
from panorama.models.base import Embedder, Proposer
from panorama.models.registry import late_embedder
from panorama.store import Store, check_name
from panorama.zones import Zones, orphan_remarks

# The query code and its engines load with the first query: indexing does not need them.
if TYPE_CHECKING:
    from panorama.answering.answerer import Answering, Asked, Verdict
    from panorama.cameras.recording_report import RecordingReport
    from panorama.cameras.recording_rule import RecordingRule
    from panorama.indexing.outcomes import Hooks, IndexReport
    from panorama.indexing.settings import IngestSettings
    from panorama.indexing.stored_crops import OnDamage
    from panorama.page.document import PageReport
    from panorama.query.handed.relations import Limits
    from panorama.query.matching.decide import Calibration
    from panorama.query.matching.matcher import AlbumMatcher
    from panorama.query.result.result import Result
    from panorama.shown.hits import Drawn
    from panorama.shown.why import Why


@checked
class Library(LibraryAlbum):
    """A library: the indexed videos and the registered entities. `panorama.open` returns one.

    Models load when first needed. Any number of processes may open the same library. Several threads may
    query one `Library`; make all other calls from a single thread. An argument of the wrong type raises
    UsageError. Any call after `close` raises LibraryClosed.
    """

    def __init__(self, path: Path, store: Store | None = None) -> None:
        super().__init__(path, store)
        self._models = LibraryModels(lambda: self._store, lambda: self._is_made)
        self._answerer: Answering | None = None

    def _let_go(self) -> None:
        if self._answerer is not None:
            self._answerer.close()
            self._answerer = None

    @property
    def embedder(self) -> Embedder:
        """The embedder that this library searches with."""
        return self._models.embedder

    @property
    def embedder_folder(self) -> Path | None:
        """The embedder's folder; None for an embedder that ships with Panorama."""
        return self._models.embedder_folder

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions during indexing."""
        return self._models.proposer

    @property
    def proposer_folder(self) -> Path | None:
        """The proposer's folder; None for a proposer that ships with Panorama."""
        return self._models.proposer_folder

    def use_model(self, name: File) -> int:
        """Search with another embedder (name or folder) from now on; returns how many crops it embedded.

        Raises:
            ModelError: there is no such model, or a file of it is missing or damaged.
            LibraryDamaged: a stored crop cannot be read; the embedder stays what it was.
        """
        return self._switch(self._models.embedder_called(os.fspath(name)), os.fspath(name))

    def _switch(self, model: Embedder, name: str, on_damage: OnDamage | None = None) -> int:
        embedded = self._models.switch(model, name, on_damage)
        self._forget_answers()
        return embedded

    def index(
        self, paths: Iterable[File] | File, *, settings: IngestSettings | None = None,
        depth: int | None = None, model: File | None = None, proposer: File | None = None,
        recording: RecordingRule | None = None, redo: bool = False, hooks: Hooks | None = None,
        parts: Sequence[str] = ("time_from", "zone", "camera_from"),
    ) -> IndexReport:  # fmt: skip
        """Index files, folders and globs; videos that have not changed since are skipped.

        Args:
            paths: one path or several; folders are searched for videos recursively.
            settings: sampling rate and the like, for all videos named. Default: the library's profile (see
                panorama.tune) for new videos; others keep theirs, unless only their keyframes were sampled.
            depth: how many exits of the embedder the crops are taken to, in place of `IngestSettings.depth`
                or the profile. A changed depth re-indexes no video.
            model: name or folder of the embedder; the library keeps using it.
            proposer: name or folder of the proposer; the library keeps using it. Videos named here that
                another proposer indexed are indexed again.
            recording: the source of wall-clock times and cameras; the library keeps the rule.
            redo: also re-index videos that were indexed with other settings (given by a caller or by an
                earlier profile), and videos indexed by an earlier version of Panorama, which stored less.
            hooks: callbacks during the run.
            parts: the attributes of `recording` that count; the others stay as the library keeps them.

        Returns:
            The outcome of every file. Failures are listed in it, not raised.
        """
        # Imported here: only indexing needs these, queries do not.
        from panorama.api.indexing import found_for, index_found
        from panorama.cameras.recording import check_fits
        from panorama.cameras.recording_rule import SETTING, Naming, completed
        from panorama.indexing.outcomes import IndexReport
        from panorama.indexing.profile import check_rate
        from panorama.indexing.settings import check_depth
        from panorama.indexing.stored_crops import lost_vectors

        named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        found = found_for(self._store if self._is_made else None, named, self._path)
        if not found.videos and not self._is_made:
            return IndexReport.of_nothing(found)
        chosen = None if model is None else self._models.embedder_called(os.fspath(model))
        check_depth(
            depth or (settings.depth if settings else None),
            chosen or (self.embedder if self._is_made else late_embedder()),
        )
        check_rate(settings, self._store if self._is_made else None)
        if recording is not None:
            kept = self.setting(SETTING) if self._is_made else None
            recording = completed(kept, {part: getattr(recording, part) for part in parts})
            # A pattern that the library keeps is not refused: without any of these options it is none, too.
            check_fits(Naming(recording, parts).named, [video.path for video in found.videos])
        finds = self.proposer if proposer is None else self._models.proposer_called(os.fspath(proposer))
        if not self._is_made:
            # Created only now, so that a misspelt path or model leaves no empty library behind.
            self._opened = Store.create(self._path, exist_ok=True)
        self._forget_answers()  # cached answers hold files open that the sweep may delete
        lost = self.zones.orphaned()
        self._store.sweep()  # files that killed runs left take up disk space that this run needs
        unlisted = lost_vectors(self._store)  # before stored crops are embedded
        embedded = 0
        if chosen is not None and model is not None:
            with waits.told_to(hooks.on_wait if hooks else None):
                embedded = self._switch(chosen, os.fspath(model), lambda error: None)  # told by `index_found`
        self._models.remember()
        if proposer is not None:
            self._models.propose_with(finds, os.fspath(proposer))
        report = index_found(
            self._store, finds, self.embedder, found, settings, depth, recording, redo, hooks
        )
        warnings = (*unlisted, *gone_remarks(named, self.videos()), *orphan_remarks(self.zones, lost))
        return replace(report, embedded=report.embedded + embedded, warnings=(*report.warnings, *warnings))

    @property
    def recording(self) -> RecordingRule:
        """The rule that the library keeps for wall-clock times and cameras."""
        from panorama.cameras.recording_rule import remembered

        return remembered(self._store if self._is_made else None)

    def date(
        self,
        videos: Sequence[File] | File | None = None,
        *,
        recording: RecordingRule | None = None,
        start: str | None = None,
        zone: str = "",
        first_start: str | None = None,
        parts: Sequence[str] = ("time_from", "zone", "camera_from"),
    ) -> RecordingReport:
        """Set when videos were recorded, without reading them again: by a rule, a start or a first start.

        Args:
            videos: names or paths, None for all.
            recording: a rule, kept by the library if `videos` is None, else by these videos until another
                is named for them or for all. Times set by hand stay.
            start: local time of the first frame of each of these videos, `2026-03-01 10:00:00`; '' makes it
                unknown, until `index` or `date` reads it by a rule that gives one. For a folder of pictures,
                of its first picture, by name, whose own time is known: the others keep their distance.
            zone: IANA name; '' for the videos' own time zone, else the library's, else that of this computer.
            first_start: local time of the first frame of the earliest video, whose clock was wrong; the other
                videos keep their distance from it.
            parts: the attributes of the rule that count; the others stay as they are.
        """
        from panorama.cameras.recording import date_videos

        names = None if videos is None else names_of(videos, self.listed())
        return date_videos(self._store, names, recording, start, zone, first_start, parts)

    def remove_videos(self, videos: Sequence[File] | File) -> list[str]:
        """Remove videos, by name or path, all or none; the files stay. Returns the names removed.

        Raises:
            UnknownVideo: the library does not hold one of them.
        """
        chosen = names_of(videos, self.listed())
        self._store.remove_videos(chosen)
        return chosen

    def register(
        self, name: str, images: Images = (), *, unlike: Images = (),
        box: Box | None = None, find: bool = False,
        category: bool | None = None, known: bool | None = None,
    ) -> Entity:  # fmt: skip
        """Add example images to an entity, and create the entity if it is new; no video is decoded again.

        Args:
            name: of the entity.
            images: one or several files, folders, globs, RGB or RGBA arrays (H, W, 3 or 4), tensors or PIL
                images. Each image is one example, used whole; `Entity.warnings` says which seem to show
                far more than the entity.
            unlike: images of look-alikes, in the same forms.
            box: `x1,y1,x2,y2` as text or four numbers; crops the single image given.
            find: crop each image to the most likely thing in it. Like `box` it is about the examples; if only
                look-alikes are given, about these.
            category: whether it stands for any of its kind, see `set_category`; None keeps what is set.
            known: True adds only to an entity that exists, False only to a new one; None to both.

        Raises:
            UsageError: no image is given, or one is neither a path nor an array.
            BadImage, BadBox: an image or box is unusable; nothing is registered.
            EntityError, UnknownEntity: the name is not allowed, or `known` does not hold.
        """
        given = registering.given(images, unlike, box, find, lambda: self.proposer)
        if not given.pictures and not given.rivals:
            raise UsageError(f"no picture given for {name!r}: name image files or a folder of them")
        return self._add({name: given}, category, known)[0]

    def register_from_video(
        self, name: str, video: File, seconds: float | None = None, box: Box | None = None,
        *, frame: int | None = None, look_alike: bool = False,
        category: bool | None = None, known: bool | None = None,
    ) -> Entity:  # fmt: skip
        """Add the part of a video frame inside a box as an example or as a look-alike; see `register`.

        Args:
            video: a file, or the name of a video in the library. The track at the place of an example counts
                as accepted; `Entity.warnings` says so if there is no track there.
            seconds: None with `frame`, or if `video` is a picture of an indexed folder.

        Raises:
            UsageError: there is no box, or the time lies outside the video.
        """
        file, seconds = named_frame(self, video, seconds, frame)
        picture = registering.placed_picture(self._store if self._is_made else None, file, seconds, box)
        given = registering.Given.of([picture], look_alike)
        if self._is_made and not look_alike:
            given = replace(given, told=given.told + registering.unplaced(self._store, file, picture))
        return self._add({name: given}, category, known)[0]

    def register_seen(
        self, name: str, *, track_ids: SeenIds = (), crop_ids: SeenIds = (), look_alike: bool = False,
        skip_gone: bool = False, category: bool | None = None, known: bool | None = None,
    ) -> Entity:  # fmt: skip
        """Add tracks (by their best stored crop) and stored crops as examples, or deny them; see `register`.

        The tracks themselves become accepted, or are kept out. If a track is named in several calls, the last
        one counts. Ids are numbers, or text as a page shows them.

        Args:
            look_alike: deny: this is not the entity. Its track is kept out, and so is any track that could be
                a picture of it. Tracks that only resemble it are decided as before; only look-alikes
                registered as images affect those.
            skip_gone: skip ids that no longer exist or have another picture now, and list them in
                `Entity.warnings`.

        Raises:
            UsageError: the library has no such track or crop, or has another picture under that id; lists all
                of them.
        """
        seen, told = seen_pictures(self, track_ids, crop_ids, skip_gone)
        denied, shown = (seen, ()) if look_alike else ((), seen)
        given = replace(registering.Given.of(shown, False, told), denied=denied)
        return self._add({name: given}, category, known)[0]

    def register_album(self, folder: File, *, category: bool | None = None) -> list[Entity]:
        """Register one entity per subfolder, all or none; look-alikes lie in its subfolder `not`."""
        return self._add(registering.given_album(Path(folder), lambda: self.proposer), category)

    def _add(
        self, album: Mapping[str, registering.Given], category: bool | None, known: bool | None = None
    ) -> list[Entity]:
        """Add entities with their examples and look-alikes, all or none, see `register`."""
        from panorama.album import vetting

        for name, given in album.items():
            if not given.pictures and check_name(name) not in self._store.entities():
                raise UsageError(f"{name!r} is new: give an example of it, not only pictures of other things")
        self._models.remember()
        ready = registering.ready_for(album, self.embedder)
        numbers = self._store.add_album(ready, category, known)
        unlike = vetting.remarks(self, ready)
        told = [
            given.remarks(self._store, name, ids) + unlike.get(name, ())
            for (name, given), ids in zip(album.items(), numbers, strict=True)
        ]
        added = [self.entity(name) for name in album]
        lacking = [() if entity.exemplars else (without_example(entity.name),) for entity in added]
        lines = zip(added, told, lacking, strict=True)
        return [replace(entity, warnings=said + lacks) for entity, said, lacks in lines]

    def forget(self, name: str, *, with_sightings: bool = False) -> Seen | None:
        """Erase an entity so that its bytes are gone; with sightings, also the crops that show it.

        These are the crops of its accepted tracks, and those of other tracks, also of other entities, that
        show the same place at the same time. Returns whose crops are gone and the uncertain tracks, which
        stay; None if no crops are erased. What an interrupted call had begun to erase always goes.

        Raises:
            NotYetErased: everything is done, but bytes stay: another process reads them, or the disk is full.
        """
        return forget(self, self._store, name, with_sightings)

    @property
    def zones(self) -> Zones:
        """The named shapes of the cameras: list, add, rename, move, drop, load and draw them."""
        return Zones(self._store, self.videos, self._path)

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *,
        picture_root: File | None = None, limits: Limits | None = None, read_only: bool = False,
        stop: Event | None = None,
    ) -> Result:  # fmt: skip
        """Answer one SQL statement, or carry out one that changes entities; see docs/SQL.md.

        Args:
            sql: DuckDB's SQL over the library's relations, with or without Panorama's extensions.
            parameters: values for `?`, `$1` or `$name`.
            picture_root: folder that must contain images named in the SQL; default: the working directory.
            limits: time, memory, threads.
            read_only: refuse statements that change entities; use it for SQL from somebody else.
            stop: ends the query when another thread sets it; statements that change entities are finished.

        Raises:
            UsageError: the SQL is not text, or a value is given for a parameter that the SQL does not have.
            QueryError: the statement cannot be answered; the error points at the place in it.
            QueryTimeout: it ran past its limits or was told to stop.
        """
        from panorama.album import vocabulary
        from panorama.answering.answerer import entity_statement

        root = picture_folder(picture_root)
        statement = entity_statement(sql, parameters, read_only)
        if statement is not None:
            return vocabulary.execute(self, statement, root)
        return self._answering.query(sql, parameters, root, limits, stop)

    def query_many(
        self, queries: Sequence[Asked], *, picture_root: File | None = None, limits: Limits | None = None,
        stop: Event | None = None,
    ) -> list[Result]:  # fmt: skip
        """Answer several SELECTs on one state of the library, matched in one pass; `limits` apply to each."""
        return list(self.query_each(queries, picture_root=picture_root, limits=limits, stop=stop))

    def query_each(
        self, queries: Sequence[Asked], *, picture_root: File | None = None, limits: Limits | None = None,
        stop: Event | None = None,
    ) -> Iterator[Result]:  # fmt: skip
        """Like `query_many`, but yield each answer as soon as it is ready."""
        return self._until_closed(
            self._answering.query_each(queries, picture_folder(picture_root), limits, stop)
        )

    @property
    def _answering(self) -> Answering:
        from panorama.answering.answerer import Answering

        with self._making:
            if self._answerer is None:
                self._answerer = Answering(self._store, lambda: self.embedder)
            return self._answerer

    def _forget_answers(self) -> None:
        if self._answerer is not None:
            self._answerer.forget()

    def verify(self, first: Image, second: Image) -> Verdict:
        """Whether two images, as files or in memory as for `register`, show the same entity."""
        return self._answering.verify(*(one_picture(given, "the array").rgb for given in (first, second)))

    def why(
        self, entity: str, video: File | None = None, *, seconds: float | None = None,
        frame: int | None = None, track_id: int | str | None = None, crop_id: int | str | None = None,
    ) -> Why:  # fmt: skip
        """Why a track was accepted, left uncertain or rejected for an entity; see panorama.shown.why.Why.

        Name it by `track_id`, by `crop_id`, or by `video` and `seconds` or `frame` (there, the best fit
        counts).
        """
        from panorama.shown.explaining import explain
        from panorama.shown.why import Place

        where = Place(None if video is None else os.fspath(video), seconds, frame, track_id, crop_id)
        return explain(self, self._answering.matcher(), entity, where)

    def page(
        self, result: Result, out: File, *, entity: str | None = None, most: int | None = None
    ) -> PageReport:  # fmt: skip
        """Write an answer of this library as an HTML page for review; see `panorama.page.document`.

        Args:
            entity: the entity for rows that name none; default: the only one that the SQL names.
            most: most hits on the page, default 200; if there are more, the first ones of the answer.

        Raises:
            QueryError: the answer has no video and time.
        """
        from panorama.page.document import MOST, write_page

        return write_page(self, result, Path(out), entity=entity, most=most or MOST)

    def sheet(self, result: Result, out: File, *, most: int | None = None) -> Drawn:
        """Draw hits of an answer as a contact sheet, default 24; if there are more, some of every track.

        If there are more tracks: with ORDER BY the first ones, otherwise those with the best scores.
        The file's suffix sets the format. QueryError if the answer has no video and time, UsageError if the
        format cannot hold a picture of so many hits.
        """
        from panorama.shown.answer_pictures import AnswerPictures

        return AnswerPictures.of(self, result).sheet(Path(out), most)

    def clips(self, result: Result, folder: File) -> Drawn:
        """Cut the hits of an answer out of their videos as mp4 files with boxes; errors as for `sheet`."""
        from panorama.shown.answer_pictures import AnswerPictures

        return AnswerPictures.of(self, result).clips(Path(folder))

    def matcher(self) -> AlbumMatcher:
        """The matcher of the album against the newest snapshot; for measuring tools."""
        return self._answering.matcher()

    def vectors_of(self, crop_ids: Ids, exit: int) -> NDArray[np.float32]:
        """Vectors of stored crops at one exit of the embedder, (N, dim), in the order of `crop_ids`.

        Raises:
            UsageError: the embedder has no such exit, or the library has no such crop.
        """
        return self._answering.vectors_of(np.asarray(crop_ids, np.int64), exit)

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """How scores become bands at each exit: the library's own calibration, else the model's."""
        from panorama.answering.calibration import calibrations_for

        return calibrations_for(self.embedder, self.snapshot().settings)
