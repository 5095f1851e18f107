"""The env file can be read by a shell."""

from tools.devcluster.env_file import env_text


def test_a_path_with_spaces_is_quoted() -> None:
    assert env_text({"KUBECONFIG": "/home/a b/kubeconfig"}) == "KUBECONFIG='/home/a b/kubeconfig'\n"
