"""The storage label `delta`: results are rows of a Delta table, which one transaction of its log adds."""
