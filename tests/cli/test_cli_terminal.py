"""On a terminal: it asks, it can be interrupted, it is coloured. Elsewhere: never."""

import io
import os
import pty
import select
import signal
import subprocess
import threading
import time

import pytest
from support.command_line import SCRIPT, call, run

from lance_spark.cli.main import main
from lance_spark.cli.output import BAR, ProgressBar, bar_text
from lance_spark.core.progress import WorkProgress
from lance_spark.storage import copying

_PATIENCE = 60


class Terminal:
    """The console script on a terminal of its own."""

    def __init__(self, directory, *arguments, **environment):
        self._master, slave = pty.openpty()
        clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self._process = subprocess.Popen(
            [SCRIPT, *arguments],
            cwd=directory,
            env={**clean, "TERM": "xterm", **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # Where the tests run in the background, SIGINT is ignored, and what they start inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, words):
        end = time.monotonic() + _PATIENCE
        while words not in self.seen:
            assert time.monotonic() < end, self.seen
            if not self._read():
                break
        assert words in self.seen, self.seen

    def type(self, keys):
        os.write(self._master, keys.encode())

    def interrupt(self):
        self._process.send_signal(signal.SIGINT)

    def end(self):
        while self._read():
            pass
        code = self._process.wait(_PATIENCE)
        os.close(self._master)
        return code

    def _read(self):
        ready, _, _ = select.select([self._master], [], [], _PATIENCE)
        try:
            found = os.read(self._master, 65536) if ready else b""
        except OSError:  # how a terminal says that the other side has ended
            found = b""
        self.seen += found.decode()
        return bool(found)


def tags(directory):
    return {tag["name"]: f"{tag['branch']}@{tag['version']}" for tag in call(directory, "tag", "--json").json["tags"]}


def test_a_yes_goes_on_and_a_no_changes_nothing(flights):
    no, yes = (Terminal(flights, "tag", name, *rest) for name, *rest in (("-d", "both"), ("-f", "v1", "exp")))
    for terminal, answer in ((no, "n\n"), (yes, "y\n")):
        terminal.wait_for("[y/N]")
        terminal.type(answer)
    assert (no.end(), yes.end()) == (1, 0)
    assert "Tag 'both' at main@1 will be deleted" in no.seen
    assert "Nothing was changed." in no.seen
    assert "Tag 'v1' will be moved from main@2 to exp@5." in yes.seen
    assert tags(flights) == {"both": "main@1", "v1": "exp@5"}


def test_ctrl_c_is_130_and_changes_nothing(flights):
    terminal = Terminal(flights, "branch", "-d", "exp")
    terminal.wait_for("[y/N]")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "Interrupted." in terminal.seen
    assert "Traceback" not in terminal.seen
    assert "exp" in call(flights, "branch").out


def test_another_word_is_asked_again_and_the_end_of_input_is_no_yes(flights):
    terminal = Terminal(flights, "tag", "-d", "both")
    terminal.wait_for("[y/N]: ")
    terminal.type("maybe\n")
    terminal.wait_for("maybe\r\nGo on? [y/N]: ")
    terminal.type("\x04")
    assert terminal.end() == 130
    assert set(tags(flights)) == {"both", "v1"}


@pytest.mark.parametrize(
    ("arguments", "environment", "coloured"),
    [((), {}, True), (("--no-color",), {}, False), ((), {"NO_COLOR": "1"}, False), ((), {"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(flights, arguments, environment, coloured):
    terminal = Terminal(flights, *arguments, "switch", "v1", **environment)
    assert terminal.end() == 3
    assert ("\x1b[" in terminal.seen) is coloured
    assert "error:" in terminal.seen


def test_no_colour_in_a_pipe(flights):
    assert "\x1b[" not in run(flights, "branch", FORCE_COLOR="1").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("branch", "-d", "exp"),
        ("tag", "-d", "v1"),
        ("tag", "-f", "v1", "main"),
        ("restore", "main~1"),
        ("gc", "--older-than", "0s", "--commit-window", "0s", "--execute"),
    ],
    ids=" ".join,
)
def test_without_a_terminal_nothing_hangs_and_nothing_goes(flights, arguments):
    if arguments[0] == "gc":
        assert call(flights, "tag", "-d", "v1", "--yes").code == call(flights, "tag", "-d", "both", "--yes").code == 0
    before = (tags(flights), call(flights, "branch", "-v", "--json").json["branches"])
    done = call(flights, *arguments)
    assert done.code == 3
    assert "Add --yes" in done.error
    assert (tags(flights), call(flights, "branch", "-v", "--json").json["branches"]) == before


class Screen(io.StringIO):
    """Stands for a terminal; ``drawn`` is set once something is on it."""

    def __init__(self, terminal=True):
        super().__init__()
        self._terminal, self.drawn = terminal, threading.Event()

    def isatty(self):
        return self._terminal

    def flush(self):
        self.drawn.set()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (WorkProgress("copy files", 0, 120), "copy files [------------------------] 0 of 120, 3 s"),
        (WorkProgress("copy files", 40, 120), "copy files [########----------------] 40 of 120, 3 s"),
        (WorkProgress("copy files", 120, 120), "copy files [########################] 120 of 120, 3 s"),
        (WorkProgress("commit"), "commit ... 3 s"),
        (WorkProgress("read manifests", 0, 1), "read manifests ... 3 s"),
    ],
)
def test_a_bar_says_how_far_it_is(step, text):
    assert bar_text(step, 3.2) == text


def test_what_takes_long_is_in_one_line_that_is_wiped(monkeypatch):
    screen, bar = Screen(), ProgressBar(patience=0, every=0.01)
    monkeypatch.setattr("sys.stderr", screen)
    bar.tell(WorkProgress("copy files", 1, 3))
    assert screen.drawn.wait(_PATIENCE)
    bar.wipe()
    assert "\r\x1b[Kcopy files [" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")
    length = len(screen.getvalue())
    bar.wipe()
    assert len(screen.getvalue()) == length
    screen.drawn.clear()
    bar.tell(WorkProgress("commit"))
    assert screen.drawn.wait(_PATIENCE)
    bar.wipe()
    assert "commit ..." in screen.getvalue()


def test_what_is_quick_shows_nothing_and_nor_does_anything_without_a_terminal_or_for_programs(monkeypatch):
    for screen, bar, hushed in (
        (Screen(), ProgressBar(), False),
        (Screen(terminal=False), ProgressBar(patience=0), False),
        (Screen(), ProgressBar(patience=0), True),
    ):
        monkeypatch.setattr("sys.stderr", screen)
        bar.hushed = hushed
        bar.tell(WorkProgress("copy files", 1, 3))
        bar.wipe()
        assert screen.getvalue() == ""


def test_a_merge_on_a_terminal_shows_a_bar_and_then_the_result(flights, monkeypatch):
    screen, slow = Screen(), copying.copy_placed

    def copied(*arguments):
        screen.drawn.clear()
        assert screen.drawn.wait(_PATIENCE)
        return slow(*arguments)

    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(copying, "copy_placed", copied)
    monkeypatch.setattr(BAR, "_patience", 0)
    assert main(["-C", str(flights), "merge", "exp"]) == 0
    assert "\r\x1b[Kcopy " in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")
