"""The output of one run as files or objects: what the stores `file` and `s3` share."""
