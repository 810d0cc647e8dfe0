"""The pages through the application's test client, and what a browser would see in them."""

from __future__ import annotations

from functools import partial
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

from lance_spark.ui.looking import Subject
from lance_spark.ui.server import Serving, make_app

HOST = "127.0.0.1:8000"


def opened(allow_merge: bool = False, **subject: Any) -> Any:
    """A client of the pages about a lake or a dataset."""
    return client_of(Serving(Subject(**subject), allow_merge, token="token"))


def client_of(serving: Serving) -> Any:
    """A client of these pages, on the port that they believe to have."""
    client = make_app(serving, 8000).test_client()
    return SimpleNamespace(
        **{name: partial(getattr(client, name), base_url=f"http://{HOST}") for name in ("get", "post")}
    )


def text_of(client: Any, page: str, status: int = 200, **headers: str) -> str:
    """The HTML of a page, which must have this status."""
    answer = client.get(f"/token/{page}", headers=headers)
    assert answer.status_code == status, answer.get_data(as_text=True)
    text: str = answer.get_data(as_text=True)
    return text


class Tags(HTMLParser):
    """What a browser would see of scripts, handlers and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.handlers += [name for name, _ in attrs if name == "style"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "data-load") and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data)
