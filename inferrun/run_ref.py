"""The identity of a run: what every layer passes around to say which run it means."""

from pydantic import BaseModel, ConfigDict


class RunRef(BaseModel):
    """One run, for good: a name may be used again, a UID never."""

    model_config = ConfigDict(frozen=True)

    namespace: str
    name: str
    uid: str
