"""Videos enter; when and by which camera each was recorded leaves, and which of them a name means."""
