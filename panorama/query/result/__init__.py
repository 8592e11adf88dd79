"""A table of Arrow enters; rows, data frames, files and printed tables leave."""
