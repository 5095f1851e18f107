"""Prints the measurements of a day as CSV: deterministic, so that the demo can be repeated.

Usage: make_day.py 2026-11-01
"""

import csv
import random
import sys

FLOWERS = 60
CENTRES = ((5.0, 3.4, 1.5, 0.2), (5.9, 2.8, 4.3, 1.3), (6.6, 3.0, 5.6, 2.0))


def main() -> None:
    day = sys.argv[1]
    draw = random.Random(day)  # noqa: S311 -- measurements, not secrets
    table = csv.writer(sys.stdout)
    table.writerow(["custom_id", "sepal_length", "sepal_width", "petal_length", "petal_width"])
    for number in range(FLOWERS):
        centre = CENTRES[number % len(CENTRES)]
        values = [round(max(0.1, draw.gauss(value, 0.2)), 2) for value in centre]
        table.writerow([f"{day}-{number:02}", *values])


if __name__ == "__main__":
    main()
