"""A path, or none, enters; the library that is meant leaves, opened or to be made by its first `index`."""

from __future__ import annotations

from panorama.api.path import library_folder
from panorama.arguments import File, checked
from panorama.library import Library
from panorama.store import Store


@checked
def open_library(path: File | None = None, *, create: bool | None = None) -> Library:
    """The library at a path (default: $PANORAMA_LIBRARY, else ./panorama-library).

    Args:
        create: make it if there is none. By default the first `index` makes it, and everything else raises
            LibraryNotFound until then; False raises at once.

    Raises:
        UsageError: no folder can be called so.
        LibraryNotFound: there is none and `create` is False, or something else is at the path.
        LibraryVersionError: another version of Panorama made it.
    """
    where = library_folder(path)
    if create:
        return Library(where, Store.create(where, exist_ok=True))
    library = Library(where)
    try:
        settled = create is False or library.exists or Store.is_taken(where)
    except PermissionError:
        settled = True
    if settled:
        library._store  # noqa: B018  opened now, to tell at once what is wrong with it
    return library
