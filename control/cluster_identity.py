"""Recognises what installations of the same cluster created, by the id that everything carries. Pure."""


def is_of_same_cluster(other: object, *, installation: str) -> bool:
    """Whether `other` is the id of this installation, or of another release in the same cluster.

    A release that was renamed has another id, and continues what the earlier one created. The runs that an installation
    may touch are those in the namespaces that it watches; the cluster's part of the id keeps out those of other clusters.
    """
    return isinstance(other, str) and other.rpartition(".")[2] == installation.rpartition(".")[2]
