"""Objects of a bucket or a container, in the store of a cloud: the labels `s3`, `gcs` and
`azure`."""
