"""Two verdicts on a storage object: what the status of its config says, and what the runner says
when it opens the store."""

import asyncio
from pathlib import Path
from typing import Any

from inferrun.contract import Contract
from inferrun.fields.problems import describe
from inferrun.plugins import ColumnSelection, ContractError, Limits, RunnerError, StoreContext
from inferrun.resources import parse_config
from inferrun.resources.validation import config_problems
from inferrun_runner.contract_file import only_label
from inferrun_runner.registry import Registry
from inferrun_runner.stores.services import RunnerServices
from tests.store_objects import COMPLETE, StoreObject

MODEL = {"modelUrl": "http://iris-predictor.models/v2/models/iris/infer"}


def spec_of(one: StoreObject, **more: object) -> dict[str, Any]:  # Any: a manifest
    """A config that is complete, but for the object."""
    ends = {end: {"file": COMPLETE[end, "file"]} for end in ("input", "output")}
    return {
        "kserve": MODEL,
        "storage": {**ends, one.end: {one.label: one.value}},
        "serviceAccountName": "batch",
        **more,
    }


def status_of(one: StoreObject, **more: object) -> str:
    """What is wrong with the object, below `spec.storage`; empty if nothing is."""
    config = parse_config({"metadata": {"name": "a"}, "spec": spec_of(one, **more)})
    return describe(config_problems(config)).replace("spec.storage.", "")


def opening_of(one: StoreObject, folder: Path) -> str:
    """Why the runner does not accept the object; empty if it opens the store, or cannot reach
    it."""
    return asyncio.run(_opened(one, folder))


async def _opened(one: StoreObject, folder: Path) -> str:
    registry, limits = Registry(), Limits(retry_seconds=0, handler_timeout=2)
    storage = {
        end: {one.label: one.value} if end == one.end else {"file": {}}
        for end in ("input", "output")
    }
    context = StoreContext(
        contract=Contract(job_id="uid", job_name="inf-a", **storage),
        limits=limits,
        services=RunnerServices(limits, folder),
        pod_uid="pod",
        input_dir=folder,
        output_dir=folder,
        endpoints_dir=folder,
        spool_dir=folder,
        format_named=registry.record_format,
        columns=ColumnSelection(),
    )
    try:
        label, value = only_label(storage[one.end], side=one.end)
        find = registry.input_store if one.end == "input" else registry.output_store
        async with find(label)(value, context):
            return ""
    except ContractError as error:
        return "" if "has no inputRun" in str(error) else str(error)
    except RunnerError:
        return ""
