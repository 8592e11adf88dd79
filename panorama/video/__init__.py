"""Video files and picture folders come in; frames, changes, moving regions and clips go out.

Import `panorama.video.clip`, which writes clips, separately: it loads PyAV, which most commands do not need.
"""

from panorama.video.digests import check_same, content_hash, content_sample, goes_on
from panorama.video.find import VIDEO_SUFFIXES, Found, FoundVideo, check_name, find_videos
from panorama.video.gate import ChangeGate, GateResult
from panorama.video.marks import FileMark, file_state
from panorama.video.motion import MotionProposer
from panorama.video.opening import open_video
from panorama.video.pictures import COPY_SUFFIXES, picture_names, pictures_in, spread
from panorama.video.planes import scaled
from panorama.video.reader import Fit, PassedFrame, VideoFrame, VideoReader
from panorama.video.recorded import picture_taken, recorded_at, was_set
from panorama.video.stretch import StretchReader

__all__ = [
    "COPY_SUFFIXES",
    "VIDEO_SUFFIXES",
    "ChangeGate",
    "FileMark",
    "Fit",
    "Found",
    "FoundVideo",
    "GateResult",
    "MotionProposer",
    "PassedFrame",
    "StretchReader",
    "VideoFrame",
    "VideoReader",
    "check_name",
    "check_same",
    "content_hash",
    "content_sample",
    "file_state",
    "find_videos",
    "goes_on",
    "open_video",
    "picture_names",
    "picture_taken",
    "pictures_in",
    "recorded_at",
    "scaled",
    "spread",
    "was_set",
]
