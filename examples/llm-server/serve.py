"""Starts llama.cpp's own HTTP server, which has OpenAI's API, with one model.

python serve.py tiny.gguf --port 8000
"""

import argparse
import signal
from pathlib import Path

from xllamacpp import CommonParams, Server, llama_pooling_type

CONTEXT = 512
SLOTS = 4


def parameters(model: Path, *, host: str, port: int) -> CommonParams:
    """Serve chat completions and embeddings, `SLOTS` at a time with `CONTEXT` tokens each, and
    metrics."""
    chosen = CommonParams()
    chosen.model.path = str(model)
    chosen.model_alias = [model.stem]
    chosen.hostnames = [host]
    chosen.port = port
    chosen.n_parallel = SLOTS
    chosen.n_ctx = SLOTS * CONTEXT
    # otherwise the vector of a text depends on the other texts that are embedded at the time
    chosen.kv_unified = True
    chosen.embedding = True
    chosen.pooling_type = llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    chosen.endpoint_metrics = True
    # Threads wait for each other in a loop: on a busy machine, two are up to eighty times slower
    # than one.
    chosen.cpuparams.n_threads = 1
    chosen.cpuparams_batch.n_threads = 1
    return chosen


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model", type=Path)
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=8000)
    options = arguments.parse_args()
    # Blocked before the server starts, so that none of its threads receives them either.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    server = Server(parameters(options.model, host=options.host, port=options.port))
    print("listening on", server.listening_address, flush=True)
    signal.sigwait(ends)


if __name__ == "__main__":
    main()
