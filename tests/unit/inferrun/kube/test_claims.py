"""Claims as users of a namespace may write them."""

from datetime import UTC, datetime

from inferrun.kube.claims import ANNOTATION_EXCEPT, CLUSTER_PLACE, HOLDER_LIMIT, Claim, Sightings
from inferrun.kube.objects import Object

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)


def lease(namespace: str, holder: str, *, excepted: str = "") -> Object:
    annotations = {ANNOTATION_EXCEPT: excepted}
    return {"metadata": {"namespace": namespace, "annotations": annotations}, "spec": {"holderIdentity": holder}}


def test_of_a_holder_of_megabytes_little_is_read() -> None:
    assert len(Claim.of(lease("team-a", "x" * 1_400_000)).holder) == HOLDER_LIMIT


def test_only_the_claim_to_all_namespaces_has_exceptions() -> None:
    assert Claim.of(lease("team-a", "a.uid", excepted="team-b,team-c")).excepted == frozenset()
    assert Claim.of(lease(CLUSTER_PLACE, "a.uid", excepted="team-b,team-c")).excepted == {"team-b", "team-c"}


def test_a_claim_that_is_gone_is_remembered_only_while_its_holder_may_be_alive() -> None:
    sightings = Sightings(own="own.uid", duration=10)
    assert sightings.observe("team-a", Claim("other.uid"), now=0, today=NOW) == "other.uid"
    assert sightings.observe("team-a", None, now=9, today=NOW) == "other.uid"
    assert sightings.places() == ["team-a"]
    assert sightings.observe("team-a", None, now=10, today=NOW) == ""
    assert sightings.places() == []
