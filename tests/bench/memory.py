"""Peak memory of indexing a clip that is looped to 1, 10 and 30 minutes.

    python tests/bench/memory.py ../shared/footage/video/bottles.mp4 --minutes 1 10 30

The packets are copied again and again into a longer file, nothing is encoded anew. Each length is indexed in
a process of its own; its peak resident memory and that of a process which only loads the models are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import av

CHILD = """
import json, resource, sys, time
import panorama
from panorama.ingest import IngestSettings
started = time.perf_counter()
with panorama.open(sys.argv[1], create=True) as library:
    library.use_model(sys.argv[3])
    library.proposer
    if sys.argv[2]:
        settings = IngestSettings(samples_per_second=float(sys.argv[4]))
        (outcome,) = library.index(sys.argv[2], settings=settings).files
        assert outcome.status == "indexed", outcome
    found = library.info().counts
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"peak": peak, "seconds": time.perf_counter() - started, **found}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 10, 30])
    parser.add_argument("--model", default="color-bands")
    parser.add_argument("--fps", type=float, default=5.0, help="samples a second, as of `panorama index`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print("minutes  frames  tracks  crops  seconds  peak MiB", flush=True)
        for minutes in [0.0, *arguments.minutes]:
            path = ""
            if minutes:
                path = str(loop(arguments.clip, Path(folder) / f"{minutes:g}.mp4", minutes * 60))
            library = str(Path(folder) / f"library-{minutes:g}")
            command = [sys.executable, "-c", CHILD, library, path, arguments.model, str(arguments.fps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            r = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{minutes:7g}  {r['frames']:6d}  {r['tracks']:6d}  {r['crops']:5d}  {r['seconds']:7.1f}"
                f"  {r['peak']:8.0f}",
                flush=True,
            )


def loop(clip: Path, out: Path, seconds: float) -> Path:
    """Copy the clip's packets until the file is `seconds` long."""
    with av.open(str(out), "w") as target:
        stream = None
        offset = 0
        while True:
            with av.open(str(clip)) as source:
                video = source.streams.video[0]
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
                offset = end
                if offset * video.time_base >= seconds:
                    return out


if __name__ == "__main__":
    main()
