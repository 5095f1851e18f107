"""Log lines as JSON."""

import json
import logging

from inferrun.logs import JsonLines


def test_a_log_line_is_json_with_its_fields() -> None:
    record = logging.LogRecord("runner", logging.INFO, __file__, 1, "input opened", (), None)
    record.records = 150
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"], line["records"]) == ("info", "input opened", 150)
