"""HTML and SVG as a tree of nodes. Writing a node escapes all its text, so no caller can forget it.

Only a `Node` becomes tags: children that are strings are text, and values of attributes are text too. Tag and attribute
names are identifiers of this package, never data.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

Value = str | int | float | bool | None

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
# Elements of HTML without an end tag.
_VOID = frozenset({"br", "col", "hr", "img", "link", "meta"})
# Elements whose text HTML does not unescape.
_RAW = frozenset({"script", "style"})
_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Node:
    """One element, with its attributes as text, and its children: elements, and text."""

    tag: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node | str, ...]

    def __str__(self) -> str:
        return "".join(_write_parts(self))


def make_element(tag: str, *children: Node | str | None, **attributes: Value) -> Node:
    """Make an element.

    Args:
        tag: Name of the element.
        children: Elements and text; None is left out.
        attributes: ``class_`` is ``class``, ``aria_sort`` is ``aria-sort``. None and False leave an attribute out, True
            gives it without a value; numbers are written with at most two decimals.
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    if not all(map(_NAME.fullmatch, (tag, *names.values()))):
        raise ValueError(f"no names of markup: {tag!r} {list(names)}")
    given = []
    for name, value in attributes.items():
        if value is not None and value is not False:
            shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            given.append((names[name], "" if value is True else shown))
    return Node(tag, tuple(given), tuple(child for child in children if child is not None))


def _write_parts(node: Node) -> Iterator[str]:
    attributes = "".join(f' {name}="{_escape(value)}"' for name, value in node.attributes)
    yield f"<{node.tag}{attributes}>"
    if node.tag in _VOID:
        return
    for child in node.children:
        if isinstance(child, Node):
            yield from _write_parts(child)
        elif node.tag not in _RAW:
            yield _escape(child)
        elif "</" in child or "<!--" in child:
            raise ValueError(f"a {node.tag} must not hold what ends it")
        else:
            yield child
    yield f"</{node.tag}>"


def _escape(text: str) -> str:
    return html.escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


class Section:
    """One part of the page: a heading, and below it sentences, which become a paragraph, and elements."""

    def __init__(self, anchor: str, heading: str, *body: Node | str | None) -> None:
        self.anchor = anchor
        self.heading = heading
        self._body = body

    def make_node(self) -> Node:
        """Make the element of the section."""
        title = make_element("h2", self.heading, id=f"{self.anchor}-title")
        body = (make_element("p", each, class_="lead") if isinstance(each, str) else each for each in self._body)
        return make_element("section", title, *body, id=self.anchor, aria_labelledby=f"{self.anchor}-title")


def make_grid(*figures: Node | None, class_: str = "grid") -> Node:
    """Put figures side by side, as many as fit."""
    return make_element("div", *figures, class_=class_)
