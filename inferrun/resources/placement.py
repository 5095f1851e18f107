"""On which nodes the Pods of a run are scheduled, and with which priority: fields of a Pod, named
as in Kubernetes.

Fields with which a Pod keeps others from nodes, such as affinity to other Pods, are left out. What
a config may set is the operator's decision (`control.trust.allowed`); the API server checks the
values when the Job is created.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName

ANY: Final = "*"
"""In place of a value or an effect that is not restricted to one."""

LabelKey = Annotated[
    str, Field(min_length=1, max_length=317, pattern=r"^([-a-z0-9.]+/)?[-A-Za-z0-9_.]+$")
]
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
NodeLabels = Annotated[dict[str, LabelValue], Field(max_length=16)]


class Toleration(ResourceModel):
    """Taints of nodes that are tolerated."""

    key: LabelKey
    """Key of the taints."""

    operator: Literal["Equal", "Exists"] | None = None
    """Equal (the default): the taint has this value; Exists: any value."""

    value: LabelValue | None = None
    """Value of the taints; not with Exists."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taints: NoSchedule, PreferNoSchedule or NoExecute. Default: all of them."""

    def __str__(self) -> str:
        """The taint as it is written: `key=value:effect`."""
        value = ANY if self.operator == "Exists" else self.value or ""
        return f"{self.key}={value}:{self.effect or ANY}"


class NodeSelectorRequirement(ResourceModel):
    """A condition on a label of the node."""

    key: LabelKey
    """Key of the label."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    values: Annotated[tuple[LabelValue, ...], Field(max_length=16)] | None = None
    """Values of the label: at least one with In and NotIn, one number with Gt and Lt, none with
    Exists and DoesNotExist."""


class NodeSelectorTerm(ResourceModel):
    """Conditions that a node must all meet."""

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...], Field(min_length=1, max_length=8)
    ]
    """Conditions on the labels of the node."""


class NodeSelector(ResourceModel):
    """Nodes by their labels."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)]
    """Terms, of which a node must meet one."""


class PreferredSchedulingTerm(ResourceModel):
    """Nodes that are preferred."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Weight of the preference, from 1 to 100."""

    preference: NodeSelectorTerm
    """Conditions that preferred nodes meet."""


class NodeAffinity(ResourceModel):
    """Nodes that are required or preferred."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes on which the Pods may run."""

    preferred_during_scheduling_ignored_during_execution: (
        Annotated[tuple[PreferredSchedulingTerm, ...], Field(max_length=8)] | None
    ) = None
    """Nodes that are preferred to others."""


class Affinity(ResourceModel):
    """Affinity to nodes; affinity to other Pods is not supported."""

    node_affinity: NodeAffinity | None = None
    """Nodes that are required or preferred, by their labels."""

    @property
    def conditions(self) -> Iterator[NodeSelectorRequirement]:
        """All conditions, of nodes that are required and then of those that are preferred."""
        wanted = self.node_affinity or NodeAffinity()
        required = wanted.required_during_scheduling_ignored_during_execution
        preferred = wanted.preferred_during_scheduling_ignored_during_execution or ()
        for term in (
            *(required.node_selector_terms if required else ()),
            *(one.preference for one in preferred),
        ):
            yield from term.match_expressions


class TopologySpreadConstraint(ResourceModel):
    """How the Pods of a run are spread over nodes with different values of a label."""

    max_skew: Annotated[int, Field(ge=1, le=64)]
    """Maximum difference in the number of Pods."""

    topology_key: LabelKey
    """Key of the label, such as kubernetes.io/hostname or topology.kubernetes.io/zone."""

    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """ScheduleAnyway: a Pod is scheduled even if the difference gets larger; DoNotSchedule: it
    waits."""


Tolerations = Annotated[tuple[Toleration, ...], Field(max_length=16)]
SpreadConstraints = Annotated[tuple[TopologySpreadConstraint, ...], Field(max_length=4)]


class Placement(ResourceModel):
    """The fields of a config that say where its Pods run; `InferenceConfigSpec` describes them."""

    node_selector: NodeLabels | None = None
    tolerations: Tolerations | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: SpreadConstraints | None = None
    priority_class_name: ResourceName | None = None
    runtime_class_name: ResourceName | None = None

    def node_labels(self) -> Iterator[tuple[str, str]]:
        """What is said about the labels of nodes: the field, and `key=value`; with `*`, it concerns
        every value.

        A constraint with ScheduleAnyway is left out: it neither chooses a node nor needs another
        one.
        """
        for key, value in (self.node_selector or {}).items():
            yield "nodeSelector", f"{key}={value}"
        for one in (self.affinity or Affinity()).conditions:
            values = one.values or () if one.operator == "In" else (ANY,)
            yield from (("affinity.nodeAffinity", f"{one.key}={value}") for value in values)
        for spread in self.topology_spread_constraints or ():
            if spread.when_unsatisfiable == "DoNotSchedule":
                yield "topologySpreadConstraints", f"{spread.topology_key}={ANY}"
