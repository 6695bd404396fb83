"""What every page with figures has: its scripts, and the policy that lets nothing else in or out.

The browser may run these scripts alone, and load, send and open nothing. The plotting library is
inside the page; of its toolbar the page has the buttons that `figures.js` names, and of its
addresses not the one to which it would upload a figure.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from importlib import resources

from plotly.offline import get_plotlyjs

# JSON between <script> tags: these characters could end the script or confuse a parser.
_ESCAPES = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_UPLOAD = re.compile(r"https://(cloud\.plotly\.com|chart-studio\.plotly\.com|plot\.ly)[\w/.-]*")
_POLICY = (
    "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'none'; base-uri 'none'; form-action 'none'"
)


def scripts(own: str) -> list[str]:
    """Return the scripts of a page, the last of which is its own, the file `own`."""
    texts = (_UPLOAD.sub("", get_plotlyjs()), page_file("figures.js"), page_file(own))
    return [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]  # as a browser reads


def policy(texts: Iterable[str]) -> str:
    """Return the content security policy under which only these scripts run."""
    sums = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return _POLICY.format(" ".join(f"'sha256-{digest}'" for digest in sums))


def page_file(name: str) -> str:
    """Return the text of a file that pages are made of."""
    return resources.files("fairpca.report.page").joinpath(f"templates/{name}").read_text("utf-8")


def script_json(text: str) -> str:
    """Make JSON safe inside a script element: no character of it can end the element."""
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text
