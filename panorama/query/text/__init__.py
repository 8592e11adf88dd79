"""A statement's text comes in; extensions, trees and values go out, or an error with its position."""
