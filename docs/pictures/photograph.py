"""``python docs/pictures/photograph.py [CHROMIUM]``: the pictures of pages, taken in a browser, beside this file.

``make browser`` installs what it needs. Run it when a page looks different.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
T = "t=shop.products&"
PAGES = {
    "lake": ("", 620),
    "table": (f"table?{T}", 640),
    "diff": (f"diff?{T}a=main&b=exp", 640),
    "row": (f"row?{T}column=id&value=7", 560),
    "merge": (f"merge?{T}source=exp&into=main", 600),
}
"""Address and height in pixels of each."""
WIDTH = 1000


def main() -> None:
    """Take all pictures, of a lake that is made for them."""
    from playwright.sync_api import sync_playwright
    from support.shown_lakes import shown_lake

    from lance_spark.ui.looking import Subject
    from lance_spark.ui.server import Serving, start

    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "lake")
        lake = shown_lake(root, tables=12, plain=True)
        running = start(Serving(Subject(catalog=lake.catalog)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
            for name, (path, height) in PAGES.items():
                take(page, running.url + path, HERE / f"page-{name}.png", height)
            browser.close()
        running.close()


def take(page: Any, address: str, file: Path, height: int) -> None:
    """One picture, once all parts in it are loaded."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.locator(".waiting").first.wait_for(state="detached")
    # The directory is another one each time.
    page.evaluate(
        "for (const e of document.querySelectorAll('h1 bdi, p code, .command code')) "
        "e.textContent = e.textContent.replace(/\\/tmp\\/[^/]+\\/lake/g, '/data/lake')"
    )
    page.screenshot(path=file)


if __name__ == "__main__":
    main()
