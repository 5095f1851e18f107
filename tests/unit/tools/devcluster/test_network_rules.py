"""Taking away the network rules of a cluster, from what `iptables -S` lists."""

from tools.devcluster.network import removal

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


def test_rules_of_the_cluster_are_deleted_before_the_chains_they_lead_to() -> None:
    assert removal(LISTED) == [
        ["-D", "FORWARD", "-i", "inferrun0", "-m", "comment", "--comment", "inferrun-devcluster", "-j", "ACCEPT"],
        ["-D", "FORWARD", "-m", "comment", "--comment", "kubernetes forwarding rules", "-j", "KUBE-FORWARD"],
        ["-F", "KUBE-FORWARD"],
        ["-F", "KUBE-SERVICES"],
        ["-X", "KUBE-FORWARD"],
        ["-X", "KUBE-SERVICES"],
    ]


def test_rules_of_others_are_left_alone() -> None:
    assert not [words for words in removal(LISTED) if "DOCKER" in words]
