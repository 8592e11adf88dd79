"""An answer as one HTML file: hits enter, a page to say yes and no on leaves.

`tiles` decides what is shown, `frames` cuts it out of the videos, `document` writes it into `page.html` with
`page.css` and `page.js`.
"""
