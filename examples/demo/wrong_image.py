"""Scene 3: an image that does not exist. The run waits and its status explains why; the fix is
applied."""

from __future__ import annotations

from examples.demo import runs
from examples.demo.terminal import Terminal

TITLE = "A wrong image name"
STORY = """
A common mistake. Kubernetes would retry forever, and the reason is only visible in the Pod's status. Here it is in the status of
the run, together with the image's name.
"""
RUN = "iris-wrong-image"
IMAGE = "no-such-runner"


def play(terminal: Terminal) -> None:
    terminal.run("kubectl apply -f examples/wrong-image.yaml")
    waiting = runs.wait_for_reason(terminal, RUN, "ImagePullFailed", timeout=45)
    terminal.run(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}")
    terminal.run(
        f"""kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o jsonpath='{{.status.message}}{{"\\n"}}'"""
    )
    terminal.check(
        IMAGE in waiting["message"],
        "the status message contains the image's name",
        found=waiting["message"],
    )

    terminal.explain(
        "The fix, as the message says: change the config (here by removing the image, so that the product's own runner is used),"
        " then delete the run and create it again, because a started run keeps its original settings."
    )
    terminal.run(f"kubectl delete inferencerun {RUN} -n {runs.NAMESPACE}")
    terminal.run("sed '/^  image:/d' examples/wrong-image.yaml | kubectl apply -f -")
    runs.wait_for_success(terminal, RUN, timeout=60)
    terminal.run(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}")
