"""The arguments that all scripts take.

Imports nothing that is not in every environment.
"""

import argparse

_parser = argparse.ArgumentParser()
for _name in ("form", "source", "target", "url"):
    _parser.add_argument(_name)
_parser.add_argument("--in-flight", type=int, required=True)
_parser.add_argument("--batch", type=int, required=True)

given = _parser.parse_args()
