"""Pictures and statements about entities come in; exemplars go out, and the library's album changes."""
