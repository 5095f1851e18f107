"""Removal of the cluster's network rules, from the output of `iptables -S`."""

from tools.devcluster.network import removal_commands

LISTED = """\
-P FORWARD ACCEPT
-N DOCKER
-N KUBE-FORWARD
-N KUBE-SERVICES
-A FORWARD -i inferrun0 -m comment --comment inferrun-devcluster -j ACCEPT
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -j DOCKER
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-SERVICES -j KUBE-FORWARD
-A DOCKER -j RETURN
""".splitlines()


def test_rules_are_deleted_before_the_chains_they_jump_to() -> None:
    assert removal_commands(LISTED) == [
        [
            "-D",
            "FORWARD",
            "-i",
            "inferrun0",
            "-m",
            "comment",
            "--comment",
            "inferrun-devcluster",
            "-j",
            "ACCEPT",
        ],
        [
            "-D",
            "FORWARD",
            "-m",
            "comment",
            "--comment",
            "kubernetes forwarding rules",
            "-j",
            "KUBE-FORWARD",
        ],
        ["-F", "KUBE-FORWARD"],
        ["-F", "KUBE-SERVICES"],
        ["-X", "KUBE-FORWARD"],
        ["-X", "KUBE-SERVICES"],
    ]


def test_other_rules_are_not_touched() -> None:
    assert not [words for words in removal_commands(LISTED) if "DOCKER" in words]
