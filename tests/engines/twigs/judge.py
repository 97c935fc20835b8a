"""An independent judge: lxml's XPath."""

from __future__ import annotations

from lxml import etree


def is_match(xpath: str, document: str | bytes) -> bool:
    """Does the expression select anything in the document, or is it true?"""
    return bool(etree.fromstring(document).getroottree().xpath(f"boolean({xpath})"))
