"""Version 1 of the inference protocol: TensorFlow Serving's `:predict`, as KServe's model servers
speak it."""
