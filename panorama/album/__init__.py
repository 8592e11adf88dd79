"""Pictures and statements about entities enter; exemplars leave, and what is kept of each entity changes."""
