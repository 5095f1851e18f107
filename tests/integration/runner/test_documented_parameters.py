"""The configs on the page about parameters, executed with the values of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.launches.compilation import compile_run
from inferrun.resources import InferenceConfig, InferenceRun, parse_config, parse_run
from inferrun.resources.validation import config_problems, run_problems
from inferrun.run_defaults import Defaults
from tests.integration.runner.pods import REPOSITORY, Machine
from tests.integration.runner.postgres_server import postgres_server
from tests.integration.runner.servers import CountingModel
from tests.unit.docs.pages import blocks

PAGE = REPOSITORY / "docs" / "how-to" / "parameters.md"
RUN_UID = "5be07ada-5fe0-4c9e-a8bc-aaae67d8d344"


def documented() -> tuple[InferenceConfig, InferenceRun, InferenceConfig]:
    """The resources of the page, as the API server returns them."""
    documents = [document for text in blocks(PAGE, "yaml") for document in yaml.safe_load_all(text)]
    for one in documents:
        one["metadata"] |= {"namespace": "models", "uid": RUN_UID}
    by_path, run, by_query = documents
    return parse_config(by_path), parse_run(run), parse_config(by_query)


def machine_of(
    folder: Path, run: InferenceRun, config: InferenceConfig, model: CountingModel
) -> Machine:
    """The Pod of the run, with its contract."""
    assert (config_problems(config), run_problems(run)) == ((), ())
    compiled = compile_run(run, config, defaults=Defaults(), runner_account="")
    contract: dict[str, Any] = json.loads(compiled.contract_json)  # Any: JSON
    contract["kserve"]["modelUrl"] = model.address
    return Machine(folder / "run", contract=contract)


async def test_the_documented_run_reads_the_path_of_its_day(
    tmp_path: Path, model: CountingModel
) -> None:
    config, run, _ = documented()
    machine = machine_of(tmp_path, run, config, model)
    place = machine.input / "in/2026/11/21/fr.jsonl"
    assert f"reads `{place.relative_to(machine.input)}`" in PAGE.read_text()
    place.parent.mkdir(parents=True)
    place.write_text("[1, 2]\n[3, 4]\n")
    await machine.success("2 of 2 records predicted")
    assert (machine.output / "out/fr").is_dir()


@pytest.mark.parametrize(("garden", "count"), [("kitchen", 2), ("x' or true --", 0)])
async def test_the_documented_query_reads_the_rows_of_its_interval(
    tmp_path: Path, model: CountingModel, garden: str, count: int
) -> None:
    _, run, config = documented()
    spec = run.spec.model_copy(update={"parameters": {"garden": garden}})
    machine = machine_of(tmp_path, run.model_copy(update={"spec": spec}), config, model)
    with postgres_server() as server:
        server.execute(
            "create table irises (id int, garden text, measured timestamptz, sepal_length float8, sepal_width float8)"
        )
        for number, measured in enumerate(
            ("2026-11-20 22:00Z", "2026-11-20 23:00Z", "2026-11-21 22:00Z", "2026-11-21 23:00Z")
        ):
            server.execute("insert into irises values (%s, 'kitchen', %s, 1, 2)", number, measured)
        for side in ("input", "output"):
            server.mount(machine.folder / "endpoints" / side)
        await machine.success(f"{count} of {count} records predicted")
        assert len(server.execute("select custom_id from predictions_202611")) == count
