"""Install pip into a virtual environment with the standard library alone.

Usage: ``python3 tools/fetch_pip.py .venv/bin/python``. For a Python without ensurepip on a
machine without pip. pip's wheel can run itself: it is fetched from the index that pip's settings
name (``PIP_INDEX_URL``, ``pip.conf``; else PyPI), checked against the index's SHA-256, and told
to install itself.
"""

import configparser
import hashlib
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_S = 60
# Plain releases of pip; 25.1 is the first that knows --group.
WHEEL = re.compile(r"/pip-(\d+)\.(\d+)(?:\.(\d+))?-py3-none-any\.whl$")


def index_url():
    """What pip itself would use: the environment, then its configuration files."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    home = Path.home()
    files = [
        "/etc/pip.conf",
        str(home / ".pip" / "pip.conf"),
        str(Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"),
        os.environ.get("PIP_CONFIG_FILE") or os.devnull,
    ]
    settings = configparser.RawConfigParser(strict=False)
    settings.read(files)
    return settings.get("global", "index-url", fallback=DEFAULT_INDEX)


class Links(html.parser.HTMLParser):
    """The pip wheels that an index page offers: (version, URL, SHA-256)."""

    def __init__(self, page_url):
        super().__init__()
        self.page_url = page_url
        self.wheels = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        link = urllib.parse.urljoin(self.page_url, values.get("href") or "")
        url, _, fragment = link.partition("#")
        match = WHEEL.search(url)
        if tag != "a" or match is None or "data-yanked" in values:
            return
        algorithm, _, digest = fragment.partition("=")
        if algorithm == "sha256":
            version = tuple(int(part or 0) for part in match.groups())
            self.wheels.append((version, url, digest))


def fetch(url):
    # The index's address is the user's own setting.
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return answer.read()


def main():
    venv_python = sys.argv[1]
    page_url = index_url().rstrip("/") + "/pip/"
    links = Links(page_url)
    links.feed(fetch(page_url).decode())
    if not links.wheels:
        sys.exit(f"the index page {page_url} offers no wheel of pip")
    _, url, digest = max(links.wheels)
    wheel = fetch(url)
    if hashlib.sha256(wheel).hexdigest() != digest:
        sys.exit("the wheel of pip is damaged: its SHA-256 is not the index's")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / url.rsplit("/", 1)[1]
        path.write_bytes(wheel)
        command = [venv_python, str(path / "pip"), "install", "-q", "--no-index", str(path)]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
