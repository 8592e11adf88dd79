"""Pages of answers as trees of tags, for tests."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import cv2
import numpy as np

RED = "SELECT tracks WHERE entity = 'red' AND score >= 0 ORDER BY score DESC, track_id"

VOID = {"meta", "link", "img", "input", "rect"}


@dataclass
class Tag:
    name: str
    attributes: dict[str, str | None]
    text: str = ""
    inside: list[Tag] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def all_text(self) -> str:
        return self.text + "".join(tag.all_text for tag in self.inside)

    def every(self) -> list[Tag]:
        return [self, *(tag for child in self.inside for tag in child.every())]

    def named(self, name: str) -> list[Tag]:
        return [tag for tag in self.every() if tag.name == name]

    def of_class(self, name: str) -> list[Tag]:
        return [tag for tag in self.every() if name in tag.classes]


class Page(HTMLParser):
    """A page as a tree; fails where a tag is not closed in its place."""

    def __init__(self, path: Path, err: str = "") -> None:
        super().__init__()
        self.err = err
        self.source = path.read_text(encoding="utf-8")
        self.root = Tag("", {})
        self._open = [self.root]
        self.feed(self.source)
        self.close()
        assert self._open == [self.root], f"{self._open[-1].name} is not closed"

    def handle_starttag(self, tag, attrs):
        made = Tag(tag, dict(attrs))
        self._open[-1].inside.append(made)
        if tag not in VOID and tag != "option":
            self._open.append(made)

    def handle_startendtag(self, tag, attrs):
        self._open[-1].inside.append(Tag(tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag != "option":
            assert self._open.pop().name == tag

    def handle_data(self, data):
        self._open[-1].text += data

    @property
    def tiles(self) -> list[Tag]:
        return self.root.of_class("tile")

    @property
    def text(self) -> str:
        return self.root.all_text

    @property
    def data(self) -> dict:
        (found,) = [tag for tag in self.root.named("script") if "id" in tag.attributes]
        return json.loads(found.text)

    @property
    def shown(self) -> str:
        """All of it but the commands: they alone say where the library lies."""
        (data,) = [tag for tag in self.root.named("script") if "id" in tag.attributes]
        return self.source.replace(data.text, "")

    def by_id(self, name: str) -> Tag:
        (found,) = [tag for tag in self.root.every() if tag.attributes.get("id") == name]
        return found

    def command(self, tiles: list[Tag], no: bool = False) -> str:
        """What the page's script makes of tiles of one entity that were marked alike."""
        (name,) = {tile.attributes["data-entity"] for tile in tiles}
        (known,) = [entity for entity in self.data["entities"] if entity["name"] == name]
        named = "".join(
            " --{data-kind} {data-number}:{data-picture}".format_map(tile.attributes) for tile in tiles
        )
        return f"{known['head']}{' --not' if no else ''}{named}{known['tail']}"


def picture(tag: Tag) -> np.ndarray:
    kind, data = (tag.attributes["src"] or "").split(",", 1)
    assert kind == "data:image/jpeg;base64"
    return cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
