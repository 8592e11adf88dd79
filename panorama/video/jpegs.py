"""Packets of Motion JPEG come in; their frames go out, and which of them are damaged."""

from __future__ import annotations

import av
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

JPEGS = "mjpeg"
STRICT = {"err_detect": "explode"}
"""Options of a decoder that reports damage as an error instead of concealing it."""


class JpegDecoder:
    """Decodes the pictures of one pass over Motion JPEG, which cameras often send broken off or disturbed.

    FFmpeg's decoder reports no error if a part of a picture cannot be decoded, and leaves there what its
    memory happens to hold: parts of other frames, which differ from run to run. Here these parts show the
    last undamaged picture; if there was none, they are of one colour.

    Args:
        stream: to be decoded by nothing else; its decoder is made strict.

    Attributes:
        damaged: whether only a part of the latest packet's picture could be decoded.
    """

    def __init__(self, stream: VideoStream) -> None:
        stream.codec_context.options = STRICT
        self.damaged = False
        self._stream = stream
        self._undamaged: av.Packet | None = None

    def decode(self, packet: av.Packet) -> list[av.VideoFrame]:
        """The frames of a packet.

        Raises:
            av.FFmpegError: nothing of it can be decoded.
        """
        self.damaged = False
        try:
            frames: list[av.VideoFrame] = packet.decode()
        except av.FFmpegError:
            frames = self._completed(packet)
            self.damaged = bool(frames)
        else:
            self._undamaged = packet if frames else self._undamaged
        return frames

    def _completed(self, packet: av.Packet) -> list[av.VideoFrame]:
        """The frames of a damaged packet, over the last undamaged picture."""
        context = self._stream.codec_context
        decoder = av.CodecContext.create(context.name, "r")
        assert isinstance(decoder, VideoCodecContext)
        # With the height, it recognises the two fields of an interlaced picture.
        decoder.width, decoder.height = context.width, context.height
        decoder.extradata = context.extradata
        if self._undamaged is not None:
            # Its frame is freed at once, so a new decoder writes the next one into the same memory.
            decoder.decode(self._undamaged)
        return list(decoder.decode(packet))
