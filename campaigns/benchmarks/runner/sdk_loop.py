"""`python sdk_loop.py`: KServe's own client in a loop, as its users write it. Runs on a Python that
has the package `kserve`.

Reads JSON lines, sends them as V2 over REST, 16 requests at a time, and writes one JSON line per
prediction.
"""

import argparse
import asyncio
import json
from itertools import chain, islice
from pathlib import Path

from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig  # type: ignore[import-not-found]

AT_A_TIME = 16


async def main(source: Path, sink: Path, *, url: str, rows: int) -> None:
    """Predict a file."""
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=300))
    with source.open() as lines, sink.open("w") as out:
        records = map(json.loads, lines)
        while batches := [
            batch for _ in range(AT_A_TIME) if (batch := list(islice(records, rows)))
        ]:
            for response in await asyncio.gather(
                *(_infer(client, url, batch) for batch in batches)
            ):
                out.writelines(json.dumps({"prediction": value}) + "\n" for value in response)


async def _infer(client: InferenceRESTClient, url: str, batch: list[list[float]]) -> list[float]:
    values = list(chain.from_iterable(batch))
    tensor = InferInput(
        name="input-0", shape=[len(batch), len(batch[0])], datatype="FP32", data=values
    )
    response = await client.infer(
        url, InferRequest(model_name="bench", infer_inputs=[tensor]), model_name="bench"
    )
    return list(response.outputs[0].data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("source", type=Path)
    parser.add_argument("sink", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(main(given.source, given.sink, url=given.url, rows=given.rows))
