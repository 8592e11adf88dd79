"""Messages between two processes arrive as they were sent."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from panorama.worker.channel import receive, send


def test_messages_arrive_as_they_were_sent() -> None:
    reading, writing = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    big = np.arange(3 << 20, dtype=np.uint8).reshape(1024, -1, 3)
    sent = ["text", {"a": big, "b": big[::2, ::3]}, np.zeros((0, 4), np.float32), None]
    sender = threading.Thread(target=send, args=(writing, sent))
    sender.start()
    got = receive(reading)
    sender.join()
    assert got[0] == "text" and got[3] is None and got[2].shape == (0, 4)
    np.testing.assert_array_equal(got[1]["a"], big)
    np.testing.assert_array_equal(got[1]["b"], big[::2, ::3])
    got[1]["a"][:] = 0  # as any other array
    writing.write(b"\x02\x00")  # and then the end, in the middle of a message
    writing.close()
    with pytest.raises(EOFError):
        receive(reading)
    reading.close()
