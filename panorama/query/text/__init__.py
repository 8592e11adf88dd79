"""The text of a statement enters; extensions, trees and values leave, or what is wrong with it and where."""
