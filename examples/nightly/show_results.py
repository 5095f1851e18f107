"""Opens the results of a run as a data frame, and prints its first rows and how often each class
was predicted.

Usage: show_results.py RUN [ENDPOINT]; ENDPOINT is where the S3 server of the cluster can be reached
from here.
"""

import sys

from inferrun.client import Client


def main() -> None:
    run, *endpoint = sys.argv[1:]
    credentials = {"endpoint": endpoint[0]} if endpoint else None
    with Client(namespace="kserve-test") as client:
        frame = client.results(run, credentials=credentials).to_pandas()
    print(frame[["custom_id", "prediction"]].head(3).to_string(index=False))
    print(frame.groupby("prediction").size().rename("flowers").to_string())


if __name__ == "__main__":
    main()
