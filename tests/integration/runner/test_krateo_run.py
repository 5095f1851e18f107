"""A run by the `krateo` label, from the data handler through the model and back."""

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import Handler

ROWS = [[float(index), 0.5, 1.25, 2] for index in range(150)]


async def test_predictions_reach_the_handler_in_the_order_of_the_rows(krateo: Machine, handler: Handler) -> None:
    handler.rows = ROWS
    ended = await krateo.pod()
    assert (ended.code, ended.message) == (0, "150 of 150 records predicted"), ended.stderr
    assert handler.predictions() == [sum(row) for row in ROWS]
    assert ended.result.delivery == "AtLeastOnce"
    assert ended.progress()[-1] == {"total": 150, "completed": 150, "failed": 0}


async def test_the_handler_gets_the_bodies_that_were_agreed(krateo: Machine, handler: Handler) -> None:
    handler.rows = ROWS[:2]
    await krateo.pod()
    parameters = krateo.contract["parameters"]
    assert handler.asked == [parameters]
    assert handler.stored == [
        {"job_uid": krateo.contract["jobId"], "pod_uid": "pod-1", "predictions": "[3.75,4.75]", **parameters}
    ]
    assert [headers["Authorization"] for headers in handler.headers] == [
        "Bearer secret-of-input",
        "Bearer secret-of-output",
    ]
    assert {headers["Content-Type"] for headers in handler.headers} == {"application/json"}
    assert all("Content-Length" in headers for headers in handler.headers)
