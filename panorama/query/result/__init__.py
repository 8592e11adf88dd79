"""An Arrow table comes in; rows, data frames, files and printed tables go out."""
