"""Hits of an answer come in; one HTML page goes out on which to say yes or no to each.

`tiles` decides what is shown, `frames` cuts it out of the videos, `document` writes it into `page.html` with
`page.css` and `page.js`.
"""
