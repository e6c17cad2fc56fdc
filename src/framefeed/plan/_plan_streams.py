"""Plan clips of several catalogs that are joined by a column: the others follow the first stream by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np

from framefeed._checks import expected
from framefeed.catalog import Catalog, JoinedRows, check_plannable, join_rows
from framefeed.errors import UsageError
from framefeed.index import Pick
from framefeed.plan._clips import CatalogClips
from framefeed.plan._layouts import FollowingRows
from framefeed.plan._options import ClipOptions
from framefeed.plan._request_rule import make_row_requests
from framefeed.plan._rules import ClipRule
from framefeed.plan._stream_clips import Following, StreamClips, join_clips
from framefeed.plan._tables import Excluded, describe_source, find_common_picture, find_failing
from framefeed.request import Picking, Policy

_BY_TIME = Following("", Picking(), None)


def plan_streams(
    catalogs: Mapping[str, Catalog],
    on: str,
    rule: ClipRule | str,
    forms: Mapping[str, Mapping[str, Any]],
    picking: tuple[Pick | None, float | None],
    options: ClipOptions,
) -> StreamClips:
    """Plan the clips of joined catalogs; pickles of plans name this function.

    ``rule`` is that of the first stream, or the name of the column of its frames. The others follow by a pick rule and
    a tolerance; None for "nearest", and for the rule's tolerance. ``options`` are of the whole, without size and crop.
    """
    for catalog in catalogs.values():
        check_plannable(catalog)
    joined = _leave_out_failing(catalogs, join_rows(catalogs, on), forms, options)
    arguments = (dict(catalogs), on, rule, forms, picking, options)
    (name, catalog), *others = catalogs.items()
    own = replace(options, **forms[name])
    leader = make_row_requests(catalog, rule, own, joined.rows[0]) if isinstance(rule, str) else rule
    first = CatalogClips.of(catalog, leader, own, joined.rows[0])
    parts = {name: first}
    policy: Policy = getattr(leader, "policy", "repeat_last")
    tolerance = getattr(leader, "tolerance_seconds", None) if picking[1] is None else picking[1]
    following = Following(on, Picking(picking[0] or "nearest", tolerance, policy), leader.num_frames)
    for (other, catalog), rows in zip(others, joined.rows[1:], strict=True):
        own = replace(options, columns=(), **forms[other])
        followers = np.full(len(first.catalog), -1, np.int64)
        followers[joined.rows[0]] = rows
        parts[other] = CatalogClips(
            catalog,
            following,
            own,
            layout=FollowingRows(first.layout, followers),
            columns={},
            classes=(),
            windows=None,
            pictures=own.pictures,
            picture=find_common_picture(catalog, own.pictures, rows, own.unequal),
        )
    pairs = blake2b(joined.rows.tobytes(), digest_size=8).hexdigest()
    takes = {
        name: (replace(clips, joined=pairs, recipe=(_plan_stream, (name, *arguments))),)
        for name, clips in parts.items()
    }
    each = list(catalogs.values())
    unjoined = tuple(Excluded(describe_source(each[number], row), reason) for number, row, reason in joined.unmatched)
    return join_clips(takes, unjoined, recipe=(plan_streams, arguments))


def _plan_stream(name: str, *arguments: Any) -> CatalogClips:
    """Plan the clips of one stream; pickles of it name this function."""
    return plan_streams(*arguments).parts[name][0]


def _leave_out_failing(
    catalogs: Mapping[str, Catalog], joined: JoinedRows, forms: Mapping[str, Mapping[str, Any]], options: ClipOptions
) -> JoinedRows:
    """Leave out the rows of which one fails, with their partners: in all but the only stream, frames need times."""
    rows, unmatched = joined.rows, list(joined.unmatched)
    for number, (name, catalog) in enumerate(catalogs.items() if len(catalogs) > 1 else ()):
        own = replace(options, **forms[name])
        for is_failing, reason in find_failing(catalog, _BY_TIME, own, rows[number]):
            kind, _, message = reason.partition(": ")
            for group in rows[:, is_failing].T.tolist():
                why = f"{kind}: {describe_source(catalog, group[number])} (stream {name!r}): {message}"
                unmatched += [(stream, row, why) for stream, row in enumerate(group)]
            rows = rows[:, ~is_failing]
    return JoinedRows(rows, tuple(unmatched))


def check_streams(streams: Any, on: Any) -> None:
    """Check the arguments ``streams`` and ``on`` of ``plan_clips``."""
    what = 'a dict of catalogs by name, such as {"rgb": rgb_catalog, "flow": flow_catalog}'
    if not isinstance(streams, Mapping) or not streams:
        raise expected("streams", what, streams)
    for name, catalog in streams.items():
        check_stream_name(name)
        if isinstance(catalog, type) or not hasattr(catalog, "usable_rows"):
            raise expected(f"streams[{name!r}]", "a Catalog (from ff.scan or ff.Catalog.open)", catalog)
    if not isinstance(on, str):
        raise expected("on", 'the name of the column that joins the catalogs, or "stem" for the names of files', on)


def check_stream_name(name: Any) -> None:
    """Raise UsageError unless a name is text that is not empty."""
    if not isinstance(name, str) or not name:
        raise expected("a stream's name", "text", name)


def split_form(streams: Mapping[str, Any], **forms: Any) -> dict[str, dict[str, Any]]:
    """Split size and crop, each one for all streams or a dict by stream, into those of each stream."""
    for what, given in forms.items():
        if isinstance(given, Mapping) and given.keys() != streams.keys():
            raise UsageError(
                f"{what}: expected a value for each stream, {list(streams)}, got them for {list(given)}: None stands "
                "for no such change"
            )
    return {
        name: {what: given[name] if isinstance(given, Mapping) else given for what, given in forms.items()}
        for name in streams
    }
