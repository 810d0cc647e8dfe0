"""Examples can be pasted into a shell of Python, where a block ends with a blank line."""

import re
from codeop import CommandCompiler

import pytest
from support.pages import PAGES, ROOT

pytestmark = pytest.mark.pure


def misread(code: str) -> str:
    """The line at which a shell would stop; empty if it takes all of them."""
    compiler, waiting = CommandCompiler(), []
    for line in [*code.splitlines(), ""]:
        waiting.append(line)
        try:
            if compiler("\n".join(waiting), "shell", "single") is not None:
                waiting = []
        except (SyntaxError, ValueError, OverflowError):
            return line or waiting[-2]
    return "" if not any(waiting) else waiting[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_can_be_pasted_into_a_shell(page):
    found = [
        misread(code) for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    ]
    assert not any(found), found


def test_a_block_without_an_end_is_seen():
    assert misread("for n in (1, 2):\n    print(n)\nprint(3)\n") == "print(3)"
    assert misread("class A:\n    def f(self):\n        pass\n\n    def g(self):\n        pass\n") == "    def g(self):"
    assert misread("for n in (1, 2):\n    print(n)\n\nprint(\n    3\n)\n") == ""
