"""The worker process: builds the clients and serves the task queues."""
