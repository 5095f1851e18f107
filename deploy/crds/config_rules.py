"""The CEL rules of `InferenceConfig`: the two placements of the model's fields, quantities, and the
supported storages.

A rule cannot detect an unknown key below a supported storage label, because storage objects
preserve unknown fields; the shim reports it on the config's status.
"""

from typing import Final

from deploy.crds.rules import ERROR_THRESHOLD, Rule, either, text
from inferrun.fields.quantities import QUANTITY as QUANTITY_PATTERN
from inferrun.fields.quantities import SIZE as SIZE_PATTERN
from inferrun.resources.config import LARGEST_SIZE, LEAST_SIZE, LEAST_WINDOW, MODEL_VERSIONS


def _one_placement(field: str) -> Rule:
    both = (
        f"has(self.{field}) && self.{field} != '' && has(self.kserve) && has(self.kserve.{field})"
    )
    return Rule(
        holds=f"!({both} && self.kserve.{field} != '') || self.{field} == self.kserve.{field}",
        message=(
            f"""'{field} is "' + self.{field} + '" but kserve.{field} is "' + self.kserve.{field} + '"; """
            """allowed is one of them, or both with the same value'"""
        ),
        field=f".{field}",
    )


MODEL_FIELDS: Final = ("modelName", "modelUrl", "modelVersion", "modelInputName")
MODEL_VERSION: Final = Rule(
    holds=f"self in {either('', *MODEL_VERSIONS)}",
    message=f"""'modelVersion is "' + self + '"; allowed are {" and ".join(MODEL_VERSIONS)}'""",
)
ONE_MODEL: Final = Rule(
    holds=(
        "!has(self.kserve) || !has(self.kserve.serviceRef) || "
        "((!has(self.kserve.modelUrl) || self.kserve.modelUrl == '') && (!has(self.modelUrl) || self.modelUrl == ''))"
    ),
    message=(
        """'kserve.serviceRef names "' + self.kserve.serviceRef.name + '" and modelUrl is set; allowed is one of them: """
        """remove modelUrl to use the address in the status of the object'"""
    ),
    field=".kserve.serviceRef",
)
QUANTITY: Final = Rule(
    holds=(
        f"type(self) == int ? self >= 0 : self.matches({text(QUANTITY_PATTERN)}) && isQuantity(self) && "
        "!quantity(self).isLessThan(quantity('0'))"
    ),
    message=(
        """'the quantity is "' + string(self) + '"; allowed are numbers from 0 with or without a unit, """
        """such as 2, 500m, 1.5 in quotes, 256Mi'"""
    ),
)

RESOURCE_RULES: Final = {f"spec.resources.{part}[]": (QUANTITY,) for part in ("requests", "limits")}
TOLERATION: Final = Rule(
    holds="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
    message="""'value is "' + self.value + '" and operator is "Exists"; allowed is one of them'""",
    field=".value",
)
NODE_LABEL: Final = Rule(
    holds=(
        "(has(self.values) ? size(self.values) : 0) == 0 ? self.operator in ['Exists', 'DoesNotExist'] : "
        "self.operator in ['In', 'NotIn'] || (self.operator in ['Gt', 'Lt'] && self.values.all(one, one.matches('^[0-9]+$')) "
        "&& size(self.values) == 1)"
    ),
    message=(
        """'operator is "' + self.operator + '" with another number of values; allowed are one or more with In and NotIn, """
        """one number with Gt and Lt, and none with Exists and DoesNotExist'"""
    ),
    field=".operator",
)
_NODE_AFFINITY: Final = "spec.affinity.nodeAffinity"
PLACEMENT_RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "spec.tolerations[]": (TOLERATION,),
    f"{_NODE_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[]": (
        NODE_LABEL,
    ),
    f"{_NODE_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchExpressions[]": (
        NODE_LABEL,
    ),
}


def _size(least: str) -> Rule:
    def within(found: str) -> str:
        return f"!{found}.isLessThan(quantity('{least}')) && !{found}.isGreaterThan(quantity('{LARGEST_SIZE}'))"

    return Rule(
        holds=f"string(self).matches({text(SIZE_PATTERN)}) && {within('quantity(string(self))')}",
        message=(
            f"""'the size is "' + string(self) + '"; allowed are sizes from {least} to {LARGEST_SIZE}, """
            """in bytes or with a unit, such as 64Mi'"""
        ),
    )


CONFIG_RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "spec": (*(_one_placement(field) for field in MODEL_FIELDS), ONE_MODEL),
    "spec.modelVersion": (MODEL_VERSION,),
    "spec.kserve.modelVersion": (MODEL_VERSION,),
    "spec.errorThreshold": (ERROR_THRESHOLD,),
    **RESOURCE_RULES,
    **PLACEMENT_RULES,
    **{
        f"spec.limits.{name}": (_size(LEAST_SIZE),)
        for name in ("chunk", "record", "response", "spool")
    },
    "spec.limits.window": (_size(LEAST_WINDOW),),
}
