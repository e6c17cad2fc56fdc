from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.report._markup import make_element
from tests.report.made import HOSTILE, Page

texts = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=40)


@given(texts, texts)
def test_text_stays_text(content: str, value: str) -> None:
    page = Page(str(make_element("p", content, title=value)))
    assert page.tags == [("p", {"title": _legal(value)})]
    assert "".join(page.texts) == _legal(content)


def _legal(text: str) -> str:
    bad = [*range(9), 0xB, 0xC, *range(0xE, 0x20), 0x7F, 0xFFFE, 0xFFFF]
    return text.translate(dict.fromkeys(bad, "\N{REPLACEMENT CHARACTER}"))


@pytest.mark.parametrize("name", HOSTILE)
def test_S13_hostile_names_open_no_element(name: str) -> None:
    page = Page(str(make_element("td", make_element("bdi", name), title=name, data_value=name)))
    assert [tag for tag, _ in page.tags] == ["td", "bdi"]
    assert set(page.tags[0][1]) == {"title", "data-value"}


def test_lone_surrogates_can_be_written() -> None:
    assert str(make_element("p", "\udce9")).encode("utf-8")


def test_attributes() -> None:
    made = make_element("rect", class_="a", x=1.239, y=2.0, width=3, hidden=True, title=None, role=False, data_tip="t")
    assert str(made) == '<rect class="a" x="1.24" y="2" width="3" hidden="" data-tip="t"></rect>'


def test_children_keep_their_order_and_none_is_left_out() -> None:
    assert str(make_element("p", "a", None, make_element("br"), "b")) == "<p>a<br>b</p>"
    assert str(make_element("ul", *(make_element("li", each) for each in "ab"))) == "<ul><li>a</li><li>b</li></ul>"


@pytest.mark.parametrize("tag", ["a b", "", "a>", "1a"])
def test_names_of_elements_must_be_identifiers(tag: str) -> None:
    with pytest.raises(ValueError, match="names of markup"):
        make_element(tag)
    with pytest.raises(ValueError, match="names of markup"):
        make_element("p", **{tag: "x"})


@pytest.mark.parametrize("content", ["a </script> b", "<!-- a"])
def test_a_script_cannot_end_itself(content: str) -> None:
    with pytest.raises(ValueError, match="must not hold"):
        str(make_element("script", content))
