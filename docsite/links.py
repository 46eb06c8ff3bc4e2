"""Links of a page that lead out of docs/. In: Markdown, where the page is, pages by the file that they stand for. Out: Markdown for the site.

A link to a file of the repository that has a page becomes a link to that page. Any other file is named: the site is read without the
repository, too, and knows of no address of it.
"""

import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def rewritten(text: str, source: str, uri: str, pages: Mapping[str, str]) -> str:
    """Return the text with its links as they are on the site.

    `source` is the file that the text is from and `pages` gives pages by the files that they stand for, both from the root of the
    repository; `uri` is where the page is on the site.
    """
    folder = PurePosixPath(source).parent.as_posix()
    here = PurePosixPath(uri).parent.as_posix()

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        file = posixpath.normpath(posixpath.join(folder, target))
        page = pages.get(file) or pages.get(f"{file}/README.md")
        if page is None and file.startswith("docs/"):
            page = file.removeprefix("docs/") + ("" if PurePosixPath(file).suffix else "/README.md")
        if page is None:
            return f"`{file}`" if file in {words, words.strip("`")} else f"{words} (`{file}`)"
        return f"[{words}]({posixpath.relpath(page, here)}{anchor})"

    return _LINK.sub(link, text)
