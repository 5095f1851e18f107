"""Text from outside, made safe to show in a status, an Event or a log."""


def one_line(text: str, *, limit: int = 512) -> str:
    """`text` on one line of printable characters, shortened to `limit` characters."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
