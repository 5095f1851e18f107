"""Opens a Parquet file as a data frame, and prints the types of its columns and its first rows:
python show_table.py FILE."""

import sys

import pandas

if __name__ == "__main__":
    frame = pandas.read_parquet(sys.argv[1], dtype_backend="pyarrow")
    print(frame.dtypes.to_string())
    print(frame.head(4).map(lambda value: " ".join(str(value).split())).to_string(max_colwidth=40))
