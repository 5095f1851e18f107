"""The JSON schemas of what programs pass to and get from the front door, one file each under
docs/reference/schemas.

They are made from the models that the workflows themselves use. A submission that a schema accepts
may still be refused: some rules need more than a schema.
"""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from deploy.crds.definitions import inference_run
from deploy.crds.schema import Schema, field_docs, models_below
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress, RunResult
from inferrun.submission import INTERNAL_FIELDS, Submission

FOLDER: Final = Path("reference") / "schemas"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- Any: as in the base class
        """The titles would be the names of the fields again."""
        return False


def stale(docs: Path) -> dict[Path, str]:
    """The files that differ from the models, each with its new text."""
    texts = {
        docs / FOLDER / name: json.dumps(schema, indent=2) + "\n"
        for name, schema in schemas().items()
    }
    return {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def schemas() -> dict[str, Schema]:
    """Each schema by the name of its file."""
    result = _schema_of(RunResult, mode="serialization")
    return {
        "submission.json": {"$schema": DIALECT, **_submission()},
        "run-result.json": {"$schema": DIALECT, **result},
        "run-failure.json": {"$schema": DIALECT, **_failure(result)},
        "progress.json": {"$schema": DIALECT, **_schema_of(Progress, mode="serialization")},
        "edited-run.json": {"$schema": DIALECT, **_schema_of(RunRef, mode="serialization")},
    }


def _submission() -> Schema:
    """What programs may set; nothing else is accepted. The fields that the spec of a run has are
    described there."""
    schema = _schema_of(Submission, mode="validation")
    spec = inference_run()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "spec"
    ]["properties"]
    own = {
        "namespace": "Kubernetes namespace in which the InferenceRun is created.",
        "labels": "Labels of the InferenceRun; labels under inferrun.dev/ are reserved.",
    }
    properties = {
        name: value for name, value in schema["properties"].items() if name not in INTERNAL_FIELDS
    }
    for name, value in properties.items():
        value["description"] = own.get(name) or spec[name]["description"]
    config = properties["configRef"]
    config["anyOf"] = [
        {"type": "string"},
        *(one for one in config["anyOf"] if one != {"type": "null"}),
    ]
    del config["default"]
    schema["$defs"] = {
        name: {**part, "additionalProperties": False} for name, part in schema["$defs"].items()
    }
    del schema["$defs"]["KnownRun"]
    description = "A request for one run: the argument of SubmitInferenceRun."
    return {
        **schema,
        "description": description,
        "properties": properties,
        "required": ["namespace", "configRef"],
    }


def _failure(result: Schema) -> Schema:
    """The application error with which the workflow of a failed run ends, by the terms that all
    SDKs have."""
    definitions = {
        **result["$defs"],
        "RunResult": {key: value for key, value in result.items() if key != "$defs"},
    }
    details = {
        "description": "The result of the run; empty if no run was created.",
        "type": "array",
        "items": {"$ref": "#/$defs/RunResult"},
        "maxItems": 1,
    }
    properties = {
        "type": {"$ref": "#/$defs/Reason"},
        "message": {"description": "Explanation for people.", "type": "string"},
        "details": details,
    }
    return {
        "title": "RunFailure",
        "description": "The application error with which the workflow fails. It is not retryable.",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": definitions,
    }


def _schema_of(model: type[BaseModel], *, mode: JsonSchemaMode) -> Schema:
    """The schema, with the strings under the models' fields as descriptions."""
    schema = model.model_json_schema(by_alias=True, mode=mode, schema_generator=_Untitled)
    parts = {**schema.get("$defs", {}), model.__name__: schema}
    for name, part in models_below(model).items():
        docs = field_docs(part)
        if "description" in parts[name]:  # the docstring, with the line breaks of the source
            parts[name]["description"] = " ".join(parts[name]["description"].split())
        for field, value in parts[name].get("properties", {}).items():
            if field in docs:
                value.setdefault("description", docs[field])
        if mode == "serialization" and "properties" in parts[name]:
            # also what has its default value
            parts[name]["required"] = list(parts[name]["properties"])
    return schema
