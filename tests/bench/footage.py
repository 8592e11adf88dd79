"""The clips of a footage folder come in; longer, larger or shorter copies for the benches go out, made once.

The benches share this module. The copies go to a bench's `--work` folder, never into the checkout.
"""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import av
from measure import say

FIXED = ("people-one-by-one", "cars-from-above", "bottles")
NOISE = "scale=1920:1080,noise=alls=4:allf=t"


def fixed_clips(footage: Path) -> list[Path]:
    """The fixed-camera clips, up to 768x432."""
    return [footage / "video" / f"{name}.mp4" for name in FIXED]


def moving_clips(footage: Path) -> list[Path]:
    """All the others: hand-held cameras, films, a car's camera."""
    return [path for path in sorted((footage / "video").glob("*.mp4")) if path.stem not in FIXED]


def noisy_hd(clip: Path, work: Path) -> Path:
    """The clip at 1920x1080 with sensor noise, at its own rate, encoded by ffmpeg's libx264 as it is set."""
    return _encoded(clip, work / "hd" / clip.name, ["-vf", NOISE, "-c:v", "libx264"])


def hevc_hd(clip: Path, work: Path) -> Path:
    """The clip at 1920x1080 in HEVC of 10 bits, at its own rate, encoded by ffmpeg's libx265 as it is set."""
    how = ["-vf", "scale=1920:1080", "-pix_fmt", "yuv420p10le", "-c:v", "libx265", "-tag:v", "hvc1"]
    return _encoded(clip, work / "hevc" / clip.name, [*how, "-x265-params", "log-level=error"])


def _encoded(clip: Path, out: Path, how: list[str]) -> Path:
    if not out.exists():
        say(f"encoding {out}")
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part.mp4")
        words = ["-i", str(clip), "-an", "-fps_mode", "passthrough", *how, str(part)]
        subprocess.run(["ffmpeg", "-y", "-v", "error", *words], check=True)
        part.rename(out)
    return out


def looped(clip: Path, work: Path, minutes: float) -> Path:
    """The clip again and again, until it is so long; packets are copied, nothing is encoded anew."""
    out = work / f"looped-{minutes:g}-min" / clip.parent.name / clip.name
    if not out.exists():
        say(f"looping {out}")
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part.mp4")
        copy_packets(clip, part, minutes * 60)
        part.rename(out)
    return out


def copy_packets(clip: Path, out: Path, seconds: float, whole_rounds: bool = True) -> Path:
    """Copy the clip's packets again and again until the file is `seconds` long.

    Args:
        whole_rounds: end with the clip's end; otherwise stop there and then.
    """
    with av.open(str(out), "w") as target:
        stream = None
        offset = 0
        while True:
            with av.open(str(clip)) as source:
                video = source.streams.video[0]
                base = video.time_base or Fraction(1, 90000)
                if stream is None:
                    stream = target.add_stream_from_template(video)
                end = offset
                for packet in source.demux(video):
                    if packet.dts is None or packet.pts is None:
                        continue
                    packet.pts += offset
                    packet.dts += offset
                    end = max(end, packet.pts + (packet.duration or 0))
                    packet.stream = stream
                    target.mux(packet)
                    if not whole_rounds and end * base >= seconds:
                        return out
                offset = end
                if offset * base >= seconds:
                    return out
