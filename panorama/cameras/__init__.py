"""Videos come in; the time and camera of each recording go out, and the videos that a name means."""
