"""How shim and worker cope with thousands of live runs: memory, latency beside them, ends, a killed
worker, a restart."""
