"""The frames of one video enter; its tracks leave, with the views of each that become its crops."""
