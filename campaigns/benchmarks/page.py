"""Sections of the documentation that commands write."""


def replace_section(page: str, *, name: str, content: str) -> str:
    """The page with another content between the two comments that mark the section."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    if not rest:
        raise ValueError(f"the page has no section {name}")
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"
