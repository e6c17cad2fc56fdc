"""Markup as a tree: text is escaped where the tree is written, so no caller can forget to.

A `Node` is the only thing that becomes tags. A child that is a string is text, whatever it holds; an attribute's value
is text too. Tag and attribute names are identifiers of this package, never data.

A part of the page, and how figures stand in it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Value = str | int | float | bool | None

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_VOID = frozenset({"br", "col", "hr", "link", "meta"})
"""Elements of HTML that have no end tag."""
_RAW = frozenset({"script", "style"})
"""Elements whose text HTML does not unescape."""
_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Node:
    """One element.

    Attributes:
        tag: Its name.
        attributes: Names and values, as text.
        children: Elements, and text.
    """

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node | str, ...]

    def __str__(self) -> str:
        return "".join(_pieces(self))


def element(tag: str, *children: Node | str | None, **attributes: Value) -> Node:
    """Make an element.

    Args:
        tag: Its name.
        children: Elements and text; None is left out.
        attributes: ``class_`` is ``class``, ``aria_sort`` is ``aria-sort``. None and False leave an attribute out, True
            gives it without a value; numbers are written with at most two decimals.
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    if not all(map(_NAME.fullmatch, (tag, *names.values()))):
        raise ValueError(f"no names of markup: {tag!r} {list(names)}")
    given = [
        (names[name], _text(value)) for name, value in attributes.items() if value is not None and value is not False
    ]
    return Node(tag, tuple(given), tuple(child for child in children if child is not None))


def elements(tag: str, children: Iterable[Node | str], **attributes: Value) -> Node:
    """Make an element of many children."""
    return element(tag, *children, **attributes)


def _text(value: Value) -> str:
    if value is True:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def _pieces(node: Node) -> Iterator[str]:
    attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in node.attributes)
    yield f"<{node.tag}{attributes}>"
    if node.tag in _VOID:
        return
    for child in node.children:
        if isinstance(child, Node):
            yield from _pieces(child)
        else:
            yield _raw(node.tag, child) if node.tag in _RAW else _escaped(child)
    yield f"</{node.tag}>"


def _escaped(text: str) -> str:
    # What no parser has to accept becomes the character that stands for what cannot be shown.
    return html.escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def _raw(tag: str, text: str) -> str:
    if "</" in text or "<!--" in text:
        raise ValueError(f"a {tag} must not hold what ends it")
    return text


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
