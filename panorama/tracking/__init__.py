"""The frames of one video come in; its tracks go out, with the views of each that become its crops."""
