"""Objects come in at one end of a pipe to another process; the same objects go out at the other.

A message is pickled, and arrays follow it as they are in memory. Both ends are this program, so nothing from
others is unpickled.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
from typing import IO, Any

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")

PIPE_BYTES = 1 << 20
"""Requested capacity of a pipe: a few pictures, instead of a tenth of one."""


def widen(stream: IO[bytes]) -> None:
    """Enlarge a pipe's capacity, if the system supports that."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message and flush.

    Raises:
        OSError: the other end was closed.
    """
    beside: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, protocol=5, buffer_callback=beside.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in beside)]
    stream.write(_COUNT.pack(len(parts)) + b"".join(_LENGTH.pack(len(part)) for part in parts))
    for part in parts:
        stream.write(part)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read the next message.

    Raises:
        EOFError: the other end was closed, or its process has ended.
    """
    (count,) = _COUNT.unpack(_exactly(stream, _COUNT.size))
    lengths = _exactly(stream, count * _LENGTH.size)
    parts = [_exactly(stream, length) for (length,) in _LENGTH.iter_unpack(lengths)]
    return pickle.loads(parts[0], buffers=parts[1:])


def _exactly(stream: IO[bytes], length: int) -> bytearray:
    """Read exactly `length` bytes; a bytearray, so that arrays based on it are writable."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        read = stream.readinto(rest)  # type: ignore[attr-defined]
        if not read:
            raise EOFError("the other end of the pipe was closed")
        rest = rest[read:]
    return data
