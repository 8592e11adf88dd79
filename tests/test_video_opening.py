"""What is no video, or cannot be read as one, is refused with the reason; an odd name is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import Clip, cut_off, write_audio, write_picture_folder

from panorama.errors import VideoOpenError
from panorama.video import open_video


def refusal(path: Path) -> str:
    with pytest.raises(VideoOpenError) as caught:
        open_video(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path / "nowhere.mp4")


def test_zero_length_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    assert "empty" in refusal(tmp_path / "empty.mp4")


@pytest.mark.parametrize("name", ["notes.mp4", "notes.txt", "notes.gif", "notes"])
def test_text_file_is_not_a_video(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("To be read by people.\n" * 50)
    assert "not a video" in refusal(tmp_path / name)


def test_playlist_does_not_open_what_it_names(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    target = clips("b-frames.ts").path
    (tmp_path / "list.m3u8").write_text(f"#EXTM3U\n#EXTINF:2,\n{target}\n#EXT-X-ENDLIST\n")
    (tmp_path / "list.txt").write_text(f"ffconcat version 1.0\nfile '{target.name}'\n")
    assert "not a video" in refusal(tmp_path / "list.m3u8")
    assert "not a video" in refusal(tmp_path / "list.txt")


def test_audio_only_file_says_what_it_holds(tmp_path: Path) -> None:
    assert "no video stream (it holds: audio)" in refusal(write_audio(tmp_path / "tone.mp4"))


def test_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    # It was indexed as a video of one frame.
    said = refusal(write_audio(tmp_path / "song.mp4", with_cover=True))
    assert "no video stream (it holds: a cover picture, audio)" in said


def test_single_picture_is_not_a_video(tmp_path: Path) -> None:
    write_picture_folder(tmp_path / "one", frames=1)
    assert "single picture" in refusal(tmp_path / "one" / "frame-0.png")


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + len(data).to_bytes(4, "little") + data + b"\0" * (len(data) % 2)


def test_an_animated_webp_is_told_apart_from_a_single_picture(tmp_path: Path) -> None:
    still = cv2.imencode(".webp", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    (tmp_path / "still.webp").write_bytes(still)
    assert "single picture" in refusal(tmp_path / "still.webp")
    side = (15).to_bytes(3, "little") * 2
    shown = _chunk(b"ANMF", bytes(6) + side + (100).to_bytes(4, "little") + still[12:])
    chunks = [_chunk(b"VP8X", b"\2\0\0\0" + side), _chunk(b"ANIM", bytes(6)), shown, shown]
    (tmp_path / "moving.webp").write_bytes(_chunk(b"RIFF", b"WEBP" + b"".join(chunks)))
    assert "an animated WebP, " in (said := refusal(tmp_path / "moving.webp")) and "MP4 or GIF" in said


def test_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing to see")
    assert "without pictures" in refusal(tmp_path)


def test_recording_that_was_not_finished_is_explained(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    assert "cut off" in refusal(cut_off(clips("constant.mp4").path, tmp_path / "cut.mp4", 0.5))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_says_so(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    path = tmp_path / "secret.mp4"
    path.write_bytes(clips("constant.mp4").path.read_bytes())
    path.chmod(0)
    assert "permission" in refusal(path)


def test_name_with_colon_and_percent_opens(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    path = tmp_path / "12:30 gate %03d.mp4"
    path.write_bytes(clips("constant.mp4").path.read_bytes())
    with open_video(path) as reader:
        assert len(reader.times()) == 40
