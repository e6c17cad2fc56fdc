"""A part of the page, and how figures stand in it."""

from __future__ import annotations

from dataclasses import dataclass

from framefeed.report.markup import Node, element, elements


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page.

    Attributes:
        anchor: Its id.
        heading: Its title.
        body: What stands below the title.
    """

    anchor: str
    heading: str
    body: tuple[Node, ...]

    def node(self) -> Node:
        """As markup."""
        title = element("h2", self.heading, id=f"{self.anchor}-title")
        return element("section", title, *self.body, id=self.anchor, aria_labelledby=f"{self.anchor}-title")


def paragraph(told: str) -> Node:
    """A sentence or two."""
    return element("p", told, class_="lead")


def grid(*figures: Node | None, class_: str = "grid") -> Node:
    """Figures side by side, as many as there is room for."""
    return elements("div", [figure for figure in figures if figure is not None], class_=class_)
