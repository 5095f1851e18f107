"""Log lines as JSON."""

import json
import logging
import sys

from inferrun.logs import JsonLines


def test_a_log_line_is_json_with_its_fields() -> None:
    record = logging.LogRecord("runner", logging.INFO, __file__, 1, "input opened", (), None)
    record.records = 150
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"], line["records"]) == ("info", "input opened", 150)


def test_a_traceback_has_the_types_and_locations_of_errors_but_not_their_texts() -> None:
    try:
        try:
            raise KeyError("record c4nary")
        except KeyError as error:
            raise ValueError("header c4nary") from error
    except ValueError:
        record = logging.LogRecord(
            "runner", logging.ERROR, __file__, 1, "failed", (), sys.exc_info()
        )
    traceback = json.loads(JsonLines().format(record))["traceback"]
    assert "builtins.KeyError" in traceback
    assert traceback.endswith("builtins.ValueError\n")
    assert "test_logs.py" in traceback
    assert "header c4nary" not in traceback.replace(
        'raise ValueError("header c4nary") from error', ""
    )
