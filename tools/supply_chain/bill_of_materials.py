"""A software bill of materials in CycloneDX 1.6 JSON. The same packages give the same text."""

import uuid
from collections.abc import Sequence

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.supply_chain.image_packages import Package


def cyclonedx(packages: Sequence[Package], *, name: str, version: str) -> str:
    """The bill of an image as JSON."""
    subject = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    components = [_component(package) for package in packages]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, repr((name, version, tuple(packages))))
    bom = Bom(
        serial_number=identity, components=components, metadata=BomMetaData(component=subject)
    )
    bom.register_dependency(subject, components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _component(package: Package) -> Component:
    namespace = "debian" if package.ecosystem == "deb" else None
    url = PackageURL(
        type=package.ecosystem, namespace=namespace, name=package.name, version=package.version
    )
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        licenses=[DisjunctiveLicense(name=package.license)] if package.license else None,
    )
