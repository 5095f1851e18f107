"""What a run says if the object that it refers to is missing, or its kind. Pure."""

from inferrun.kserve import GROUP, KINDS


def missing(service: str) -> str:
    """The message about an object that does not exist; `service` is `Kind namespace/name`."""
    fix = "create it, or correct kserve.serviceRef in the InferenceConfig, and the run starts automatically"
    return f"{service} does not exist; {fix}"


def too_large(service: str, why: str) -> str:
    """The message about an object that is not parsed; `why` may end with a fix that is about another kind."""
    return f"{service} is not read: {why.partition(';')[0]}; reduce it and the run starts automatically"


def not_installed(kind: str) -> str:
    """The message about a kind that the API server does not serve."""
    versions = " or ".join(f"{GROUP}/{version}" for version in KINDS[kind].versions)
    return (
        f"kserve.serviceRef needs the kind {kind} ({versions}), which this cluster does not serve; install KServe and the run "
        "starts automatically, or set kserve.modelUrl in the InferenceConfig"
    )
