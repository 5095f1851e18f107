"""The contract between the control plane and a runner image: the content of `/tmp/contract.json`.

The keys are those of the Krateo controller and never change; `runId` and `kserve.protocolVersion` were added. Empty members are
omitted, except for `kserve`, which is always present. `input` and `output` are the InferenceConfig's storage maps, unmodified.
"""

import json
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_BYTES = 256 * 1024
"""Maximum size in bytes of contract and snapshot together. etcd accepts 1.5 MiB, and the status holds a copy of the contract."""

FreeForm: TypeAlias = dict[str, Any]  # Any: a storage object is free-form by design; each store validates its own


class Model(BaseModel):
    """The model to call, as given in the InferenceConfig; every member is optional."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, protected_namespaces=())

    model_name: str = ""
    model_url: str = ""
    model_version: str = ""
    model_input_name: str = ""
    protocol_version: str = Field(
        default="", description="Name of the protocol; absent in the Krateo controller's contracts"
    )


class Contract(BaseModel):
    """What a runner is asked to do."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    job_id: str = Field(description="UID of the run; for a run created by a schedule, UID of the schedule")
    job_name: str = Field(description="Base name of the run's Jobs")
    run_id: str = Field(default="", description="UID of the run itself; absent in the Krateo controller's contracts")
    kserve: Model = Model()
    input: FreeForm = Field(default_factory=dict, description="Storage object by label")
    output: FreeForm = Field(default_factory=dict, description="Storage object by label")
    parameters: dict[str, str] = Field(default_factory=dict)


def dump_contract(contract: Contract) -> str:
    """Return the contract as compact JSON without empty members; `kserve` is kept even if it is empty."""
    value = contract.model_dump(by_alias=True)
    value["kserve"] = {key: text for key, text in value["kserve"].items() if text}
    kept = {key: member for key, member in value.items() if member or key == "kserve"}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
