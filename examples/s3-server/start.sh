#!/bin/sh
# Starts the S3 server with an empty bucket `records`. Each directory in $DATA is a bucket.
# AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY: the only credentials.
set -eu

mkdir -p "$DATA/records"
export ROOT_ACCESS_KEY="$AWS_ACCESS_KEY_ID" ROOT_SECRET_KEY="$AWS_SECRET_ACCESS_KEY"
exec versitygw --quiet --port :7070 posix "$DATA"
