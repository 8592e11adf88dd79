"""The bytes of a HEIC file, as phones save photographs, come in; a PIL image goes out."""

from __future__ import annotations

from typing import Any

from panorama.errors import BadImage
from panorama.lines import one_line
from panorama.pictures.picture_size import MOST_PIXELS

_ISO_MEDIA = b"ftyp"
"""At offset 4 of HEIC, AVIF and similar files, and of MP4."""
_STILL = frozenset({b"heic", b"heix", b"heim", b"heis", b"mif1", b"mif2", b"avif"})
"""Brands of single pictures; `hevc`, `msf1` and `avis` are those of sequences."""


def is_iso_media(data: bytes) -> bool:
    """Whether a file consists of ISO media boxes, like HEIC, AVIF and MP4."""
    return data[4:8] == _ISO_MEDIA


def is_still(head: bytes) -> bool:
    """Whether a file is a single picture (HEIC, AVIF) and no video, by the brand in its first 12 bytes."""
    return is_iso_media(head) and head[8:12] in _STILL


def heif_picture(data: bytes, name: str) -> Any:
    """The main picture of a HEIC file as a PIL image; colours of more than 8 bits are reduced to 8.

    It is upright and has no metadata: the decoder applies the rotation in the file, which EXIF only repeats.

    Raises:
        BadImage: damaged, in an unsupported coding, too large, or the package that reads it is missing.
    """
    try:
        import pi_heif  # imported here, so that only such files need it
    except ImportError as exc:
        raise BadImage(
            f"{name} is HEIC, which needs the package pi-heif, but that cannot be loaded ({exc}): "
            "pip install pi-heif, or save the picture as JPEG"
        ) from exc
    try:
        file = pi_heif.open_heif(data, convert_hdr_to_8bit=True)
        width, height = file.size
        if width * height > MOST_PIXELS:
            raise BadImage(f"{name} is {width}x{height}, more than 2^28 pixels; save it smaller")
        picture = file.to_pillow()
    except (ValueError, EOFError, SyntaxError, RuntimeError, OSError, MemoryError, LookupError) as exc:
        trouble = f"damaged, or in an encoding that is not supported ({one_line(str(exc).strip())})"
        raise BadImage(f"{name} is {trouble}; save it as JPEG") from exc
    picture.info.clear()
    return picture
