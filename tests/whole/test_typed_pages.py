"""Whether a page says what came out of a shell: the check behind tests/whole/test_documentation.py can fail."""

import pytest
from support import shells
from support.desk import Desk
from support.pages import Example, ends_as_shown, examples, faults, matches


@pytest.mark.parametrize(
    ("claim", "output", "expected"),
    [
        ("71", "71\n", True),
        ("71", "710\n", False),
        ("71", "", False),
        ("71", "a warning\n71\n", False),
        ("exp@2: 16 rows; ...", "exp@2: 16 rows; 3 files\n", True),
        ("exp@2: 16 rows; ...", "exp@3: 16 rows; 3 files\n", False),
        ("5 files, 1.2 KiB", "5 files, 758 B\n", True),
        ("5 files, 1.2 KiB", "6 files, 1.2 KiB\n", False),
        ("plan 20261121T110226-c573822e", "plan 20270101T000000-00000000\n", True),
        ("made 3 minutes ago", "made just now\n", True),
        ("2026-01-31 12:00:00 UTC", "2027-02-01 01:02:03.456 UTC\n", True),
    ],
)
def test_an_output_is_what_a_comment_says(claim, output, expected):
    assert matches(claim, output) == expected


@pytest.mark.parametrize(
    ("shown", "output", "expected"),
    [
        (["b", "c"], "a\nb\nc\n", True),
        (["a", "b"], "a\nb\nc\n", False),
        (["a", "...", "c"], "a\nb\nb\nc\n", True),
        (["a", "...", "c"], "a\nb\nc\nd\n", False),
        (["a", "c"], "a\nb\nc\n", False),
        (["xa"], "a\n", False),
        (["a"], "xa\n", False),
        (["name     size", "x      12 MiB"], "name  size\nx   9.5 KiB\n", True),
        (["x  1"], "x  2\n", False),
    ],
)
def test_an_output_ends_as_a_block_shows(shown, output, expected):
    assert ends_as_shown(shown, output) == expected


def typed(*lines, shown=None, language="python"):
    return Example(language, "", lines, 1, shown)


TRACEBACK = "Traceback (most recent call last):\n  File ...\nlance.NotFound: There is no branch 'b'.\n"


@pytest.mark.parametrize(
    ("example", "said", "wrong"),
    [
        pytest.param(typed("1 + 1  # 2"), ["2\n"], 0, id="a value"),
        pytest.param(typed("1 + 1  # 3"), ["2\n"], 1, id="another value"),
        pytest.param(typed("x = 1  # 1"), [""], 1, id="nothing comes out"),
        pytest.param(typed("x = 1  # a remark"), [""], 0, id="a remark"),
        pytest.param(typed("x()  # a remark"), ["<X>\n"], 0, id="a remark beside something unsaid"),
        pytest.param(typed("print(x)  # a thing"), ["another thing\n"], 1, id="what a print says is no remark"),
        pytest.param(typed("print(", "    x", ")  # 7"), ["", "", "8\n"], 1, id="over several lines"),
        pytest.param(typed("f()", "", "2  # 2"), ["1\n", "", "2\n"], 0, id="each its own"),
        pytest.param(typed("f()"), [TRACEBACK], 1, id="an error"),
        pytest.param(typed("f()", shown=("NotFound: There is no", "branch 'b'.")), [TRACEBACK], 0, id="shown"),
        pytest.param(typed("f()", shown=("NotFound: no branch",)), [TRACEBACK], 2, id="another error"),
        pytest.param(typed("f()", "g()", shown=("1",)), [TRACEBACK, "1\n"], 1, id="an error before what is shown"),
        pytest.param(typed("false", language="bash"), ["[exit code 1]\n"], 1, id="a command fails"),
        pytest.param(typed("x # exit code 1: no", language="bash"), ["[exit code 1]\n"], 0, id="as it says"),
        pytest.param(typed("x # exit code 2: no", language="bash"), ["[exit code 1]\n"], 1, id="otherwise"),
        pytest.param(
            typed("false", "echo a", language="bash", shown=("a",)), ["[exit code 1]\n", "a\n"], 1, id="before"
        ),
    ],
)
def test_faults(example, said, wrong):
    assert len(faults(example, said)) == wrong


PAGE = """
# A page

```bash
echo 1 > file
false || ls
```

```
file
```

<!-- not typed: takes a cluster -->
```bash
spark-submit job.py
```

<!-- without spark -->
```python
import os

class A:
    x = 1

os.path.getsize("file")  # {}
```
"""


def test_a_page_is_typed_into_shells(tmp_path):
    page = tmp_path / "page"
    page.write_text(PAGE.format(2))
    assert [(example.shell, example.shown) for example in examples(page)] == [("bash", ("file",)), ("python", None)]
    (tmp_path / "desk").mkdir()
    desk = Desk(tmp_path / "desk")
    assert desk.type(page) == []
    wrong = tmp_path / "wrong"
    wrong.write_text(PAGE.format(3))
    assert desk.type(wrong) == ["line 25: it says 3, and there came 2"]
    wrong = tmp_path / "body"
    wrong.write_text(PAGE.format(2).replace("    x = 1\n", "    x = 1\n\n    y = 2\n"))
    (found,) = desk.type(wrong)
    assert "IndentationError: unexpected indent" in found


def test_a_shell_that_ends_or_hangs_is_seen(tmp_path, monkeypatch):
    shell = shells.python(tmp_path)
    with pytest.raises(AssertionError, match="The shell ended after"):
        shell.type(["raise SystemExit"])
    shell.close()
    shell = shells.python(tmp_path)
    monkeypatch.setattr(shells, "PATIENCE", 0.2)
    monkeypatch.setattr(shells, "GRACE", 0.2)
    with pytest.raises(AssertionError, match="The shell waits after"):
        shell.type(["import time; time.sleep(60)"])
    shell.close()
