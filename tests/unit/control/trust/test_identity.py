"""Links into the Temporal UI."""

import pytest

from control.trust.identity import Installation

ID = "inferencerun/models/iris/5be07ada"
ENCODED = "inferencerun%2Fmodels%2Firis%2F5be07ada"


def url(base: str, *, namespace: str = "default", workflow_id: str = ID, run_id: str) -> str | None:
    installation = Installation(
        id="", task_queue="", temporal_namespace=namespace, ui_url=base, namespace=""
    )
    return installation.workflow_reference(workflow_id=workflow_id, run_id=run_id).url


@pytest.mark.parametrize("base", ["http://ui:8233", "http://ui:8233/"])
def test_an_ids_slashes_are_percent_encoded(base: str) -> None:
    assert (
        url(base, run_id="r-1")
        == f"http://ui:8233/namespaces/default/workflows/{ENCODED}/r-1/history"
    )


def test_without_a_run_id_it_is_the_page_of_the_workflow() -> None:
    assert (
        url("http://ui", namespace="a/b", run_id="")
        == f"http://ui/namespaces/a%2Fb/workflows/{ENCODED}"
    )


@pytest.mark.parametrize(("base", "workflow_id"), [("", ID), ("http://ui", "")])
def test_without_an_address_or_an_id_there_is_no_link(base: str, workflow_id: str) -> None:
    assert url(base, workflow_id=workflow_id, run_id="r") is None
