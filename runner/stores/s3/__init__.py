"""The storage label `s3`: objects of a bucket, on Amazon S3 or a server that is compatible with it."""
