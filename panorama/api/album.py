"""A directory comes in; a `LibraryAlbum` goes out that lists and changes the registered entities."""

from __future__ import annotations

from panorama.album.entities import Entity
from panorama.api.contents import LibraryContents
from panorama.arguments import File, Ids, checked
from panorama.cameras.listed_videos import real_path, uri_of
from panorama.errors import UnknownEntity, no_entity
from panorama.store import Exemplar, Reviewed, check_name


@checked
class LibraryAlbum(LibraryContents):
    """The part of `panorama.Library` about its entities that needs no model."""

    def entities(self) -> list[Entity]:
        """All entities, ordered by name."""
        return Entity.listed(self.snapshot().entities)

    def entity(self, name: str) -> Entity:
        """One entity. UnknownEntity lists similar names; EntityError: the name is not allowed."""
        snapshot, called = self.snapshot(), check_name(name)
        names = snapshot.entity_names
        if called not in names:
            raise UnknownEntity(no_entity(name, names))
        return Entity.listed(snapshot.entities.slice(names.index(called), 1))[0]

    def set_category(self, name: str, category: bool = True) -> Entity:
        """Set whether an entity stands for any of its kind (a species, a model of car) or for one individual.

        Examples of a category reach farther, because its members differ more than pictures of one thing do.
        Its tracks do not compete with each other, because many can be right at the same time.
        """
        self._store.set_category(name, category)
        return self.entity(name)

    def exemplars(self, name: str) -> list[Exemplar]:
        """The example images of an entity, in order of registration."""
        return self._store.exemplars(name)

    def reviewed(self, video: File) -> list[Reviewed]:
        """Places in a video where somebody said what is there or is not there, ordered by time.

        Answers confirmed or denied by row (`register_seen`), and boxes cut out by hand
        (`register_from_video`). They belong to the content of the video: they hold for all copies, and stay
        when it is indexed again.

        Args:
            video: a file, or the name of a video in the library; UnknownVideo if the library holds neither.
        """
        known = self._store.known_file(real_path(video))
        if known is None:
            known = self._store.known_file(uri_of(video, self.videos()))
        return self._store.reviewed(known.content_hash) if known else []

    def rename(self, name: str, new: str) -> None:
        """Rename an entity; EntityError if the new name is taken."""
        self._store.rename_entity(name, new)

    def remove_exemplar(self, exemplar_id: int) -> None:
        """Remove one example image."""
        self.remove_exemplars([exemplar_id])

    def remove_exemplars(self, exemplar_ids: Ids) -> None:
        """Remove example images, all or none; EntityError if one of the ids does not exist."""
        self._store.remove_exemplars(map(int, exemplar_ids))

    def drop(self, name: str) -> None:
        """Remove an entity. UnknownEntity lists similar names; EntityError: the name is not allowed."""
        self._store.drop_entity(name)
