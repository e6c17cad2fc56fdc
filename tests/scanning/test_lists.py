"""What is read of lists, in one table: a name, the list, its options, the paths and the columns beside them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from tests.scanning.test_manifests import names, read

BOM = b"\xef\xbb\xbf"
AB = ["a.mp4", "b.mp4"]
ARCHERY = "Archery/v_Archery_g08_c01.avi"
VIDEOMAE, SLOWFAST = "a/v one.mp4 3\na/v2.mp4 12\n", "a/v1.mp4,3\na/v2.mp4,12\n"
JSON_LINES = '{"video": "a/v1.mp4", "label": 3}\n{"video": "a/v2.mp4", "label": 12}\n'
JSON_LIST = '[{"path": "a/v1.mp4", "label": 3}, {"path": "a/v2.mp4", "label": 12}]'
KINETICS = "label,youtube_id,time_start,time_end\nplaying guitar,-abc_12,7,17\nskiing,xyz,130,140\n"
MANY = "label,path,start_seconds,split,take,when,empty\ncat,007,0.5,train,1,2020-01-02,\n" + (
    'dog,sub/b.mp4,,test,2,2020-01-03,\n,"c,d.mp4",2.25,,3,,\n'
)
SEVERAL_LINES = ["one\ntwo, three\nfour", "said hello\n\nand went, slowly\n", "a\nb\nc\nd\ne\nf\ng", "x\ny.mp4"]
COMMENTS = "# my list: path, label\n#\na.mp4 x\n# old.mp4 2\n## b.mp4 2\n#b.mp4 2\nc.mp4 3 # none\nd.mp4 4\n"
TWO = {"label": [3, 12]}

CASES: dict[str, tuple[str, str | bytes, dict[str, Any], list[str], dict[str, list[Any]]]] = {
    # A path a line.
    "paths": ("x.txt", "a.mp4\nb/c.mp4\n", {}, ["a.mp4", "b/c.mp4"], {}),
    "empty lines": ("x.txt", "a.mp4\n\n\nb.mp4", {}, AB, {}),
    "ends of lines": ("x.txt", BOM + b"a.mp4\r\nb.mp4\r\n", {}, AB, {}),
    "blanks at the ends": ("x.txt", '"#1.mp4"\n a.mp4\nb .mp4\n', {}, ["#1.mp4", " a.mp4", "b .mp4"], {}),
    "bytes": ("x.txt", b"caf\xe9.mp4\n", {}, ["caf\udce9.mp4"], {}),
    "separators": ("x.txt", "my video.mp4\nc,d.mp4\ne;f g.mp4\n", {}, ["my video.mp4", "c,d.mp4", "e;f g.mp4"], {}),
    "nothing": ("x.txt", "", {}, [], {}),
    "an empty CSV": ("x.csv", "\n", {}, [], {}),
    "comments alone": ("x.txt", "# paths\na.mp4\n#b.mp4\n", {}, ["a.mp4"], {}),
    "quotes": ("x.txt", '"a b.mp4"\nc.mp4\n"d""e.mp4" \nx"y.mp4\n', {}, ["a b.mp4", "c.mp4", 'd"e.mp4', 'x"y.mp4'], {}),
    # A path and values behind it.
    "VideoMAE": ("t.csv", VIDEOMAE, {}, ["a/v one.mp4", "a/v2.mp4"], TWO),
    "VideoMAE as text": ("t.txt", VIDEOMAE, {}, ["a/v one.mp4", "a/v2.mp4"], TWO),
    "SlowFast": ("t.csv", SLOWFAST, {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "commas": ("t.txt", SLOWFAST, {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "semicolons": ("t.txt", SLOWFAST.replace(",", "; "), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "semicolons of CSV": ("t.csv", SLOWFAST.replace(",", ";"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "tabs": ("t.lst", SLOWFAST.replace(",", "\t"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "tabs of CSV": ("t.csv", SLOWFAST.replace(",", "\t"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "a header": ("t.txt", "path label\n" + SLOWFAST.replace(",", " "), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "a header of CSV": ("t.csv", "video;label\n" + SLOWFAST.replace(",", ";"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "UCF101": ("trainlist01.txt", f"{ARCHERY} 3\r\nb.avi 12\r\n", {}, [ARCHERY, "b.avi"], TWO),
    "UTF-16": ("t.txt", SLOWFAST.replace(",", " ").encode("utf-16"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "UTF-16 of CSV": ("t.csv", ("path,label\n" + SLOWFAST).encode("utf-16"), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "a mark": ("t.csv", BOM + SLOWFAST.encode(), {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "JSON": ("t.json", JSON_LIST, {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "JSON lines": ("t.jsonl", JSON_LINES, {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "JSON lines as JSON": ("t.json", JSON_LINES, {}, ["a/v1.mp4", "a/v2.mp4"], TWO),
    "a label in quotes": ("x.txt", '"a b.mp4" "to run"\n"c.mp4" sit\n', {}, ["a b.mp4", "c.mp4"],
                          {"label": ["to run", "sit"]}),
    "a path in quotes": ("x.txt", '"a b.mp4" 3\nc.mp4 4\n', {}, ["a b.mp4", "c.mp4"], {"label": [3, 4]}),
    "other endings in quotes": ("x.txt", '"a.mp4 b.mp4",3\n"c.xyz",4\n', {}, ["a.mp4 b.mp4", "c.xyz"],
                                {"label": [3, 4]}),
    "quotes in quotes": ("x.txt", '"a ""b"".mp4"\t3\nc.mp4\t4\r\n', {}, ['a "b".mp4', "c.mp4"], {"label": [3, 4]}),
    "a hash in quotes": ("x.txt", '"#1.mp4" 3\n#2.mp4 4\n', {}, ["#1.mp4"], {"label": [3]}),
    "a folder with a blank": ("x.txt", "my dir/a.mp4 3\nb.mp4 4\n", {}, ["my dir/a.mp4", "b.mp4"], {"label": [3, 4]}),
    "comments": ("x.txt", COMMENTS, {}, ["a.mp4", "c.mp4", "d.mp4"], {"label": ["x", "3 # none", "4"]}),
    "apostrophes": ("x.txt", "a.mp4, '80s\nb.mp4, '90s\n", {}, AB, {"label": ["'80s", "'90s"]}),
    "apostrophes behind": ("x.txt", "a.mp4, rock 'n'\nb.mp4, dogs'\n", {}, AB, {"label": ["rock 'n'", "dogs'"]}),
    "apostrophes around": ("x.txt", "a.mp4, 'cat'\nb.mp4, \"dog\"\n", {}, AB, {"label": ["'cat'", "dog"]}),
    "an apostrophe of a path": ("x.txt", "'80s/a.mp4 3\nb.mp4 4\n", {}, ["'80s/a.mp4", "b.mp4"], {"label": [3, 4]}),
    "words": ("x.txt", "a.mp4 120 run\nb.mp4 84 2\n", {}, AB, {"label": ["120 run", "84 2"]}),
    # Columns.
    "types": ("x.csv", MANY, {}, ["007", "sub/b.mp4", "c,d.mp4"], {
        "label": ["cat", "dog", None], "start_seconds": [0.5, None, 2.25], "split": ["train", "test", None],
        "take": [1, 2, 3], "when": [dt.date(2020, 1, 2), dt.date(2020, 1, 3), None], "empty": [None, None, None]}),
    "numbers": ("x.csv", "path,rate\na.mp4,0.5\nb.mp4,1e-05\n", {}, AB, {"rate": [0.5, 1e-05]}),
    "truth": ("x.csv", "path,label,start,is_good\na.mp4,1.10,1.50,true\nb.mp4,1.1,12.00,False\n", {}, AB,
              {"label": ["1.10", "1.1"], "start": [1.5, 12.0], "is_good": [True, False]}),
    "without a header": ("x.csv", "a.mp4,3,x\nb.mp4,4,y\n", {}, AB, {"column_1": [3, 4], "column_2": ["x", "y"]}),
    "a header with tabs": ("x.tsv", "path\tlabel\na.mp4\tx, y\n", {}, ["a.mp4"], {"label": ["x, y"]}),
    "capitals": ("x.csv", "Path,Label\na.mp4,3\n", {}, ["a.mp4"], {"label": [3]}),
    "only capitals": ("x.csv", "FILENAME,LABEL\na.mp4,3\n", {}, ["a.mp4"], {"label": [3]}),
    "a blank in a header": ("x.csv", "Video, Label \na.mp4,3\n", {}, ["a.mp4"], {"label": [3]}),
    "the exact name": ("x.csv", "path,Label,label\na.mp4,x,y\n", {}, ["a.mp4"], {"Label": ["x"], "label": ["y"]}),
    "blanks of labels": ("x.csv", "path,label,note\na.mp4,bow ,x \nb.mp4, bow,y\n", {}, AB,
                         {"label": ["bow", "bow"], "note": ["x ", "y"]}),
    "names of facts": ("x.csv", "path,width,manifest_width,height\na.mp4,1,2,3\n", {}, ["a.mp4"],
                       {"manifest_manifest_width": [1], "manifest_width": [2], "manifest_height": [3]}),
    "values of several lines": (
        "x.csv", "path,caption\n" + "".join(f'{n}.mp4,"{text}"\n' for n, text in enumerate(SEVERAL_LINES)), {},
        ["0.mp4", "1.mp4", "2.mp4", "3.mp4"], {"caption": SEVERAL_LINES}),
    "a path of several lines": ("x.csv", 'path\n"new\nline.mp4"\nb.mp4\n', {}, ["new\nline.mp4", "b.mp4"], {}),
    "path before video": ("x.csv", "video,path\nx,y\n", {}, ["y"], {"video": ["x"]}),
    "source": ("x.csv", "a,Source\nx,y\n", {}, ["y"], {"a": ["x"]}),
    "file": ("x.csv", "file,a\nx,y\n", {}, ["x"], {"a": ["y"]}),
    "video": ("x.csv", "a,VIDEO\nx,y\n", {}, ["y"], {"a": ["x"]}),
    "clip_path": ("x.csv", "clip_path,a\nx,y\n", {}, ["x"], {"a": ["y"]}),
    # Options.
    "numbers of columns": ("x.csv", "a/1,3,x\nd/2,5,y\n", {"columns": {"path": 0, "label": 1}}, ["a/1", "d/2"],
                           {"label": [3, 5], "column_2": ["x", "y"]}),
    "a row like a header": ("x.csv", "first,second\nx,y\n", {"columns": {"path": 0, "label": 1}}, ["first", "x"],
                            {"label": ["second", "y"]}),
    "names of columns": ("x.csv", "id,class\nx,y\n", {"columns": {"path": "id", "label": "class"}}, ["x"],
                         {"label": ["y"]}),
    "one name": ("x.csv", "id,class\nx.mp4,y\n", {"columns": {"label": "class"}}, ["x.mp4"], {"label": ["y"]}),
    "names of capitals": ("x.csv", "path,Label,class\na.mp4,x,y\n", {"columns": {"label": "Class", "old": "Label"}},
                          ["a.mp4"], {"old": ["x"], "label": ["y"]}),
    "a number from the end": ("x.csv", "a.mp4,3\nb.mp4,4\n", {"columns": {"take": -1}}, AB, {"take": [3, 4]}),
    "numbers of text": ("x.txt", "b/a 300 5\nb/b 20 7\n", {"columns": {"path": 0, "label": 2}}, ["b/a", "b/b"],
                        {"column_1": [300, 20], "label": [5, 7]}),
    "numbers and quotes": ("x.txt", '"my b/a" 5 300\nb/b 7 20\n', {"columns": {"path": 0, "label": 1}},
                           ["my b/a", "b/b"], {"label": [5, 7], "column_2": [300, 20]}),
    "Kinetics": ("t.csv", KINETICS, {"path_template": "{label}/{youtube_id}_{time_start:06d}_{time_end:06d}.mp4"},
                 ["playing guitar/-abc_12_000007_000017.mp4", "skiing/xyz_000130_000140.mp4"],
                 {"label": ["playing guitar", "skiing"], "youtube_id": ["-abc_12", "xyz"], "time_start": [7, 130],
                  "time_end": [17, 140]}),
    "text in a template": ("x.csv", "id,start\na,1.50\nb,12.00\n", {"path_template": "{id}_{start}.mp4"},
                           ["a_1.50.mp4", "b_12.00.mp4"], {"id": ["a", "b"], "start": [1.5, 12.0]}),
    "blanks in a template": ("x.csv", "id,class\n1,bow \n2, bow\n",
                             {"columns": {"label": "class"}, "path_template": "{class}/{id}"}, ["bow/1", "bow/2"],
                             {"id": [1, 2], "label": ["bow", "bow"]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lists_are_read(tmp_path: Path, case: str) -> None:
    name, content, options, paths, columns = CASES[case]
    (tmp_path / "#b.mp4").touch()
    manifest = read(tmp_path, name, content, **options)
    assert (manifest.unlistable, names(tmp_path, manifest)) == ({}, paths)
    assert manifest.columns.to_pydict() == columns
