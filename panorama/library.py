"""The Python API: a directory enters, a `Library` leaves that indexes, registers and answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panorama.album import registering
from panorama.album.entities import Entity
from panorama.album.forgetting import Seen, forget
from panorama.album.given_pictures import Image, Images, one_picture
from panorama.album.seen_pictures import seen_pictures
from panorama.api.contents import LibraryContents
from panorama.api.models import LibraryModels
from panorama.arguments import File, Ids, SeenIds, checked
from panorama.cameras.listed_videos import file_of, gone_remarks, names_of, uri_of
from panorama.errors import UnknownEntity, UsageError, no_entity
from panorama.models.base import Embedder, Proposer
from panorama.models.registry import late_embedder, load_embedder
from panorama.store import Exemplar, Reviewed, Store, check_name
from panorama.zones import Zones, orphan_remarks

# What answers, and the engines that it brings, is loaded when something is asked: indexing does without.
if TYPE_CHECKING:
    from panorama.answering.answerer import Answering, Asked, Verdict
    from panorama.cameras.recording import RecordingRule
    from panorama.cameras.recording_report import RecordingReport
    from panorama.indexing.outcomes import Hooks, IndexReport
    from panorama.indexing.settings import IngestSettings
    from panorama.page.document import PageReport
    from panorama.query.handed.relations import Limits
    from panorama.query.matching.decide import Calibration
    from panorama.query.matching.matcher import AlbumMatcher
    from panorama.query.result.result import Result
    from panorama.shown.hits import Drawn
    from panorama.shown.why import Why


@checked
class Library(LibraryContents):
    """Everything Panorama knows of some footage; made by `panorama.open`.

    Models are loaded when first needed. Open it in as many processes as you like; several threads may query
    one of them, everything else belongs into one thread. An argument of a wrong kind is a UsageError,
    anything asked after `close` a LibraryClosed.
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
        """The model that this library is searched with."""
        return self._models.embedder

    @property
    def embedder_folder(self) -> Path | None:
        """Where the model that this library is searched with lies, None for one that ships with Panorama."""
        return self._models.embedder_folder

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions while indexing."""
        return self._models.proposer

    @property
    def proposer_folder(self) -> Path | None:
        """Where the model that finds regions lies, None for one that ships with Panorama."""
        return self._models.proposer_folder

    def use_model(self, name: File) -> int:
        """Search with another embedder from now on; how many stored crops it embedded, decoding nothing.

        Raises:
            ModelError: there is no such model.
        """
        return self._switch(load_embedder(os.fspath(name)), os.fspath(name))

    def _switch(self, model: Embedder, name: str) -> int:
        embedded = self._models.switch(model, name)
        self._forget_answers()
        return embedded

    def index(
        self, paths: Iterable[File] | File, *, settings: IngestSettings | None = None,
        depth: int | None = None, model: File | None = None, proposer: File | None = None,
        recording: RecordingRule | None = None, redo: bool = False, hooks: Hooks | None = None,
    ) -> IndexReport:  # fmt: skip
        """Index files, folders and globs; what has not changed since is skipped.

        Args:
            paths: one or several; folders are searched for videos, recursively.
            settings: sampling rate and the like, for all videos named; otherwise new videos get those of the
                library's profile (see panorama.tune), and the others keep their version.
            depth: exits of the embedder that crops are taken to, instead of what the settings or the profile
                say; no video is indexed again for it.
            model: name of the embedder, which the library keeps using.
            proposer: name of what finds regions, which the library keeps using; what is named and was indexed
                with another one is indexed again.
            recording: where wall-clock times and cameras come from; the library keeps the rule.
            redo: also videos that were indexed with other settings, named then or of an earlier profile, and
                those that an earlier version indexed, which kept less of them.
            hooks: callbacks while it runs.

        Returns:
            What became of every file; failures are listed in it, not raised.
        """
        # Loaded here: a query does not need what only indexing uses.
        from panorama.api.indexing import found_for, index_found
        from panorama.cameras.recording import check_fits
        from panorama.indexing.outcomes import IndexReport
        from panorama.indexing.profile import check_rate
        from panorama.indexing.settings import check_depth

        named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        found = found_for(self._store if self._is_made else None, named, self._path)
        if not found.videos and not self._is_made:
            return IndexReport.of_nothing(found)
        chosen = None if model is None else load_embedder(os.fspath(model))
        check_depth(
            depth or (settings.depth if settings else None),
            chosen or (self.embedder if self._is_made else late_embedder()),
        )
        check_rate(settings, self._store if self._is_made else None)
        if recording is not None:
            check_fits(recording, [video.path for video in found.videos])
        finds = self.proposer if proposer is None else self._models.proposer_called(os.fspath(proposer))
        if not self._is_made:
            # Only now: a misspelt path or model leaves no empty library behind.
            self._opened = Store.create(self._path, exist_ok=True)
        self._forget_answers()  # they hold files that the sweep may want to delete
        lost = self.zones.orphaned()
        self._store.sweep()  # what killed runs left takes up the room that this one needs
        embedded = 0 if chosen is None or model is None else self._switch(chosen, os.fspath(model))
        self._models.remember()
        if proposer is not None:
            self._models.propose_with(finds, os.fspath(proposer))
        report = index_found(
            self._store, finds, self.embedder, found, settings, depth, recording, redo, hooks
        )
        warnings = (*gone_remarks(named, self.videos()), *orphan_remarks(self.zones, lost))
        return replace(report, embedded=report.embedded + embedded, warnings=(*report.warnings, *warnings))

    @property
    def recording(self) -> RecordingRule:
        """Where wall-clock times and cameras come from: the rule that the library keeps."""
        from panorama.cameras.recording import remembered

        return remembered(self._store if self._is_made else None)

    def date(
        self,
        videos: Sequence[File] | File | None = None,
        *,
        recording: RecordingRule | None = None,
        start: str | None = None,
        zone: str = "",
        first_start: str | None = None,
        times: bool = True,
    ) -> RecordingReport:
        """Say when videos were recorded, without reading them again.

        Args:
            videos: names or paths, None for all.
            recording: a rule, kept where given for all. Times set by hand stay; all, where not `times`.
            start: local time of the first frame, `2026-03-01 10:00:00`; '' makes it unknown.
            zone: as `Europe/Berlin`; '' for that which the videos have, else the library, else this machine.
            first_start: the same of the first, whose clock was wrong; the others stay as far behind it.
        """
        from panorama.cameras.recording import date_videos

        names = None if videos is None else names_of(videos, self.listed())
        return date_videos(self._store, names, recording, start, zone, first_start, times)

    def remove_videos(self, videos: Sequence[File] | File) -> list[str]:
        """Take videos out, by name or by path; the names removed. All or none.

        Raises:
            UnknownVideo: the library holds one of them not.
        """
        chosen = names_of(videos, self.listed())
        self._store.remove_videos(chosen)
        return chosen

    def register(
        self,
        name: str,
        images: Images = (),
        *,
        unlike: Images = (),
        box: str | Sequence[float] | None = None,
        find: bool = False,
        category: bool | None = None,
    ) -> Entity:
        """Add example pictures to an entity, making it if it is new; nothing is decoded again.

        Args:
            name: of the entity.
            images: one or several files, folders, globs, RGB or RGBA arrays (H, W, 3 or 4), tensors or
                pictures of PIL; each is an example as it is.
            unlike: look-alikes that the entity is not, given in the same way.
            box: `x1,y1,x2,y2` as text or four numbers, cut from the one image given.
            find: cut the most likely thing out of every image.
            category: whether it stands for any of its kind, see `set_category`; None: as it was.

        Raises:
            UsageError: a picture is given neither as a path nor as an array.
            BadImage, BadBox: a picture cannot serve; nothing is registered.
            EntityError: the name cannot serve.
        """
        given = registering.given(images, unlike, box, find, lambda: self.proposer)
        if not given.pictures and not given.rivals:
            raise UsageError(f"no picture given for {name!r}: name image files or a folder of them")
        return self._add({name: given}, category)[0]

    def register_from_video(
        self, name: str, video: File, seconds: float, box: str | Sequence[float] | None,
        *, look_alike: bool = False, category: bool | None = None,
    ) -> Entity:  # fmt: skip
        """Add the part of a video's frame inside a box as an example, or as a look-alike; see `register`.

        Args:
            video: a file, or the name of a video of the library; the track at an example's place is accepted.
                Where none is there, `Entity.warnings` says so.
        """
        file = file_of(video, self.videos)
        segment = registering.held_segment(self._store, file) if self._is_made else None
        picture = registering.video_picture(file, seconds, box, segment)
        given = registering.Given.of([picture], look_alike)
        if self._is_made and not look_alike:
            given = replace(given, told=given.told + registering.unplaced(self._store, file, picture))
        return self._add({name: given}, category)[0]

    def register_seen(
        self, name: str, *, track_ids: SeenIds = (), crop_ids: SeenIds = (),
        look_alike: bool = False, skip_gone: bool = False, category: bool | None = None,
    ) -> Entity:  # fmt: skip
        """Add what was seen as examples, or deny it: of tracks the best stored crop, and stored crops.

        The tracks themselves are accepted, or kept out; of one track the last word counts.

        Args:
            look_alike: it is not the entity. Its track is kept out, and what could be a picture of it; what
                only resembles it is decided as before, unlike with look-alikes that are given as pictures.
            skip_gone: leave out what is gone, or has another picture by now, and say so in `Entity.warnings`.

        Raises:
            UsageError: the library has no such track or crop, or another picture of it; all are named.
        """
        seen, told = seen_pictures(self, track_ids, crop_ids, skip_gone)
        given = registering.Given(() if look_alike else seen, (), told, denied=seen if look_alike else ())
        return self._add({name: given}, category)[0]

    def register_album(self, folder: File, *, category: bool | None = None) -> list[Entity]:
        """Register one entity per subfolder; look-alikes lie in its subfolder `not`. All or none."""
        return self._add(registering.given_album(Path(folder)), category)

    def _add(self, album: Mapping[str, registering.Given], category: bool | None) -> list[Entity]:
        """Add entities with their examples and look-alikes, all or none."""
        from panorama.album import vetting

        for name, given in album.items():
            if not given.pictures and check_name(name) not in self._store.entities():
                raise UsageError(f"{name!r} is new: give an example of it, not only pictures of other things")
        self._models.remember()
        ready = registering.ready_for(album, self.embedder)
        self._store.add_album(ready, category)
        unlike = vetting.remarks(self, ready)
        return [
            replace(self.entity(name), warnings=given.told + unlike.get(name, ()))
            for name, given in album.items()
        ]

    def entities(self) -> list[Entity]:
        """The vocabulary, in order of name."""
        return Entity.listed(self.snapshot().entities)

    def entity(self, name: str) -> Entity:
        """One entity; UnknownEntity with near names, EntityError where none can be called so."""
        snapshot, called = self.snapshot(), check_name(name)
        names = snapshot.entity_names
        if called not in names:
            raise UnknownEntity(no_entity(name, names))
        return Entity.listed(snapshot.entities.slice(names.index(called), 1))[0]

    def set_category(self, name: str, category: bool = True) -> Entity:
        """Say that an entity stands for any of its kind (a species, a model of car), or for one individual.

        Examples of a category reach farther, since its members are less alike than pictures of one thing, and
        its tracks are not compared with each other, since many of them may be right at once.
        """
        self._store.set_category(name, category)
        return self.entity(name)

    def exemplars(self, name: str) -> list[Exemplar]:
        """The pictures of an entity, in order of registration."""
        return self._store.exemplars(name)

    def reviewed(self, video: File) -> list[Reviewed]:
        """Places in a video of which somebody said what is there, or is not, in order of time.

        Answers by their row (`register_seen`), and what was cut out by hand (`register_from_video`).

        They hold for its content: for all of its copies, however it is indexed since.

        Args:
            video: a file, or the name of a video of the library. UnknownVideo where it holds neither.
        """
        known = self._store.known_file(str(Path(video).resolve()))
        if known is None:
            known = self._store.known_file(uri_of(video, self.videos()))
        return self._store.reviewed(known.content_hash) if known else []

    def rename(self, name: str, new: str) -> None:
        """Give an entity another name; EntityError if it is taken."""
        self._store.rename_entity(name, new)

    def remove_exemplar(self, exemplar_id: int) -> None:
        """Unregister one picture."""
        self.remove_exemplars([exemplar_id])

    def remove_exemplars(self, exemplar_ids: Ids) -> None:
        """Unregister pictures, all or none; EntityError where there is none with one of these numbers."""
        self._store.remove_exemplars(map(int, exemplar_ids))

    def drop(self, name: str) -> None:
        """Unregister an entity; UnknownEntity with near names, EntityError where none can be called so."""
        self._store.drop_entity(name)

    def forget(self, name: str, *, with_sightings: bool = False) -> Seen | None:
        """Erase an entity so that its bytes are gone; with its sightings, also crops: of what it returns.

        Where that broke off, crops of the tracks with which it had begun go without its sightings, too.

        Raises:
            NotYetErased: all is done, but bytes of it stay: another process reads, or there is no room.
        """
        return forget(self, self._store, name, with_sightings)

    def being_forgotten(self, name: str) -> NDArray[np.int64]:
        """(T,) ids of tracks that were to go with an entity's sightings, where erasing them broke off."""
        return self._store.being_forgotten(name)

    @property
    def zones(self) -> Zones:
        """The named shapes of the cameras: list, add, rename, drop, import, draw them."""
        return Zones(self._store, self.videos)

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *,
        picture_root: File | None = None, limits: Limits | None = None, read_only: bool = False,
    ) -> Result:  # fmt: skip
        """Answer one SQL statement, or carry out one about entities; see docs/SQL.md.

        Args:
            sql: DuckDB's SQL over the library's relations, or with Panorama's extensions.
            parameters: values for `?` or `$name`.
            picture_root: pictures named in the SQL lie below it; default the working directory.
            limits: time, memory, threads.
            read_only: refuse what changes the album, for text from somebody else.

        Raises:
            UsageError: the SQL is no text, or a value is given for a parameter that it does not have.
            QueryError: the statement cannot be answered; it points at the place.
        """
        from panorama.album import vocabulary
        from panorama.answering.answerer import entity_statement

        root = Path(picture_root or Path.cwd())
        statement = entity_statement(sql, parameters, read_only)
        if statement is not None:
            return vocabulary.execute(self, statement, root)
        return self._answering.query(sql, parameters, root, limits)

    def query_many(
        self, queries: Sequence[Asked], *, picture_root: File | None = None, limits: Limits | None = None
    ) -> list[Result]:
        """Answer several SELECTs of one state of the library, matched in one pass; limits are for each."""
        return list(self.query_each(queries, picture_root=picture_root, limits=limits))

    def query_each(
        self, queries: Sequence[Asked], *, picture_root: File | None = None, limits: Limits | None = None
    ) -> Iterator[Result]:
        """As `query_many`, each answer as soon as it is there."""
        return self._until_closed(
            self._answering.query_each(queries, Path(picture_root or Path.cwd()), limits)
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
        """Whether two pictures, files or in memory as for `register`, show the same entity."""
        return self._answering.verify(*(one_picture(given, "the array").rgb for given in (first, second)))

    def why(
        self, entity: str, video: File | None = None, *, seconds: float | None = None,
        frame: int | None = None, track_id: int | None = None, crop_id: int | None = None,
    ) -> Why:  # fmt: skip
        """Why a track was accepted, left uncertain or rejected for an entity; see panorama.shown.why.Why."""
        from panorama.shown.explaining import explain
        from panorama.shown.why import Place

        where = Place(None if video is None else os.fspath(video), seconds, frame, track_id, crop_id)
        return explain(self, self._answering.matcher(), entity, where)

    def page(
        self, result: Result, out: File, *, entity: str | None = None, most: int | None = None
    ) -> PageReport:  # fmt: skip
        """Write an answer of this library as an HTML page to say yes and no on; see `panorama.page.document`.

        Args:
            entity: what rows that name no entity are about; by default the only one that the SQL names.
            most: hits on the page, 200 if not told; of more, the first of the answer.

        Raises:
            QueryError: the answer has no video and time.
        """
        from panorama.page.document import MOST, write_page

        return write_page(self, result, Path(out), entity=entity, most=most or MOST)

    def sheet(self, result: Result, out: File, *, most: int | None = None) -> Drawn:
        """Draw hits of an answer as a contact sheet, 24 if not told; of more, those that show the most.

        Its suffix is the format. QueryError where the answer has no video and time.
        """
        from panorama.shown.answer_pictures import AnswerPictures

        return AnswerPictures.of(self, result).sheet(Path(out), most)

    def clips(self, result: Result, folder: File) -> Drawn:
        """Cut what an answer found into a folder, with boxes, as mp4; errors as for `sheet`."""
        from panorama.shown.answer_pictures import AnswerPictures

        return AnswerPictures.of(self, result).clips(Path(folder))

    def matcher(self) -> AlbumMatcher:
        """What matches the album against the newest snapshot, for those who measure it."""
        return self._answering.matcher()

    def vectors_of(self, crop_ids: Ids, exit: int) -> NDArray[np.float32]:
        """Vectors of stored crops at an exit of the library's model, in the order given: (N, dim).

        Raises:
            UsageError: the model has no such exit, or the library no such crop.
        """
        return self._answering.vectors_of(np.asarray(crop_ids, np.int64), exit)

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """How scores become bands at each exit: the library's own calibration, else the model's."""
        from panorama.answering.calibration import calibrations_for

        return calibrations_for(self.embedder, self.snapshot().settings)
