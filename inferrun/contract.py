"""The contract between the control plane and a runner, of any image: what stands in `/tmp/contract.json`.

The keys are the Krateo controller's and never change; `runId` is added. Empty members are left out, `kserve` is always
there. `input` and `output` are the config's storage maps, unmodified.
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_BYTES = 256 * 1024
"""Bytes of contract and snapshot together at most. etcd takes 1.5 MiB; the status carries the contract once more."""

FREE_FORM = dict[str, Any]  # Any: a storage object is free-form by design; each store validates its own


class Model(BaseModel):
    """The model to call, as the config names it; every member is optional."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, protected_namespaces=())

    model_name: str = ""
    model_url: str = ""
    model_version: str = ""
    model_input_name: str = ""


class Contract(BaseModel):
    """One run's work order."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    job_id: str = Field(description="The run's UID; for the runs of a schedule the schedule's UID")
    job_name: str = Field(description="The base name of the run's Jobs")
    run_id: str = Field(default="", description="The run's own UID; absent in contracts of the Krateo controller")
    kserve: Model = Model()
    input: FREE_FORM = Field(default_factory=dict, description="Label to storage object")
    output: FREE_FORM = Field(default_factory=dict, description="Label to storage object")
    parameters: dict[str, str] = Field(default_factory=dict)


def dump_contract(contract: Contract) -> str:
    """The contract as compact JSON without its empty members; `kserve` stays even when it is empty."""
    value = contract.model_dump(by_alias=True)
    value["kserve"] = {key: text for key, text in value["kserve"].items() if text}
    kept = {key: member for key, member in value.items() if member or key == "kserve"}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
