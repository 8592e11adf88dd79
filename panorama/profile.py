"""What `panorama tune` found enters a library's settings; the settings that `index` takes leave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from panorama.errors import UsageError
from panorama.ingest import IngestSettings

SETTING = "profile"


@dataclass(frozen=True, slots=True)
class Profile:
    """How a library indexes when nothing else is asked for.

    Attributes:
        settings: what to look at.
        predicted, measured: frames of video a second, by the cost model and by indexing the sample.
        agreement: mean F1 of what is found against what the densest setting finds, in [0, 1].
    """

    settings: IngestSettings
    predicted: float
    measured: float
    agreement: float

    def as_json(self) -> dict[str, Any]:
        """For the library's settings."""
        return asdict(self)

    def describe(self) -> str:
        """One line."""
        return (
            f"{self.settings.samples_per_second:g} looks a second at {self.settings.proposal_side} pixels, "
            f"{self.settings.crops_per_track} crops a track; {self.measured:.0f} frames/s, "
            f"agreement {self.agreement:.2f}"
        )


def profile_of(raw: Any) -> Profile | None:
    """A profile as it is stored in a library's settings; None where there is none.

    Raises:
        UsageError: it is not one that this version understands.
    """
    if raw is None:
        return None
    try:
        chosen = IngestSettings(**raw["settings"])
        return Profile(chosen, float(raw["predicted"]), float(raw["measured"]), float(raw["agreement"]))
    except (KeyError, TypeError, ValueError) as exc:
        raise UsageError(
            f"the library's profile cannot be read: {exc!r}; run `panorama tune` again, or with --reset"
        ) from exc
