"""The storage labels `delta` and `iceberg` of inferrun."""
