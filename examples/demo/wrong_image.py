"""Scene 3: an image that nobody has. The run waits and says for what; the cure is typed."""

from __future__ import annotations

from examples.demo import runs
from examples.demo.stage import Stage

TITLE = "Scene 3 of 5 · A wrong image name"
STORY = """
The commonest mistake of all. Kubernetes itself would try for ever and tell only those who know where to ask: the run's own
line says it, with the image's name.
"""
RUN = "iris-wrong-image"
IMAGE = "no-such-runner"


def play(stage: Stage) -> None:
    stage.type("kubectl apply -f examples/wrong-image.yaml")
    waiting = runs.wait_for_reason(stage, RUN, "ImagePullFailed", within=45)
    stage.type(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}")
    stage.type(f"""kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o jsonpath='{{.status.message}}{{"\\n"}}'""")
    stage.promise(IMAGE in waiting["message"], "the status message names the image", but=waiting["message"])

    stage.look_for(
        "The cure, as the message says: mend the config (here: leave the image out, so that the product's own runner is"
        " taken), then delete the run and create it again; a run that was started keeps what it was started with."
    )
    stage.type(f"kubectl delete inferencerun {RUN} -n {runs.NAMESPACE}")
    stage.type("sed '/^  image:/d' examples/wrong-image.yaml | kubectl apply -f -")
    runs.wait_for_success(stage, RUN, within=60)
    stage.type(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}")
