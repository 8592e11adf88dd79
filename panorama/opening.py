"""A path, or none, comes in; the library there goes out, open or to be created by its first `index`."""

from __future__ import annotations

from panorama.api.path import library_folder
from panorama.arguments import File, checked
from panorama.library import Library
from panorama.store import Store


@checked
def open_library(path: File | None = None, *, create: bool | None = None) -> Library:
    """Open the library at a path (default: $PANORAMA_LIBRARY, else ./panorama-library).

    Args:
        path: the library's directory; None for the default.
        create: True creates the library now if there is none. None (default): the first `index` creates it,
            and every other call raises LibraryNotFound until then. False raises LibraryNotFound now.

    Raises:
        UsageError: the path cannot be the name of a folder.
        LibraryNotFound: there is no library and `create` is False, or the path holds something else.
        LibraryVersionError: the library has the schema of another version of Panorama.
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
        library._store  # noqa: B018  opens the store now, so that a broken library raises here
    return library
