"""The cluster's certificate authority and the certificates it signs, created once per cluster with
openssl.

Each component has its own user name and groups, as in any Kubernetes cluster, so the default RBAC
rules apply.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from .commands import run
from .layout import ADDRESS, API_SERVICE, DOMAIN, LAYOUT, NODE, PORTS, Layout

ELLIPTIC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
API_NAMES = (
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    f"kubernetes.default.svc.{DOMAIN}",
)


@dataclass(frozen=True)
class Identity:
    """A certificate's subject (user and group) and, for servers, its subject alternative names."""

    file: str
    name: str
    group: str = ""
    alternative_names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.name}"


IDENTITIES = (
    Identity("admin", "inferrun-devcluster-admin", "system:masters"),
    Identity("controller-manager", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    Identity("node", f"system:node:{NODE}", "system:nodes"),
    Identity("proxy", "system:kube-proxy"),
    Identity("dns", "system:coredns"),
    Identity("api-to-kubelet", "kube-apiserver-kubelet-client", "system:masters"),
    Identity(
        "api",
        "kube-apiserver",
        alternative_names=(
            f"IP:{ADDRESS}",
            f"IP:{API_SERVICE}",
            "IP:127.0.0.1",
            *(f"DNS:{name}" for name in API_NAMES),
        ),
    ),
    Identity("kubelet", NODE, alternative_names=(f"IP:{ADDRESS}", f"DNS:{NODE}")),
)


def create_certificates(layout: Layout = LAYOUT) -> None:
    """Create missing certificates. Each is written after its key, so an incomplete pair is created
    again."""
    folder = layout.certificates
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.crt").exists():
        _create_authority(folder)
    if not (folder / "accounts.pub").exists():
        run(["openssl", "genpkey", "-algorithm", "RSA", "-out", folder / "accounts.key"])
        run(
            [
                "openssl",
                "pkey",
                "-in",
                folder / "accounts.key",
                "-pubout",
                "-out",
                folder / "accounts.pub",
            ]
        )
    for identity in IDENTITIES:
        if not (folder / f"{identity.file}.crt").exists():
            _sign(folder, identity)


def _key_and_certificate(folder: Path, name: str, subject: str) -> list[str]:
    files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt.partial")]
    return [
        "openssl",
        "req",
        "-x509",
        *ELLIPTIC,
        "-noenc",
        "-days",
        "3650",
        *files,
        "-subj",
        subject,
    ]


def _create_authority(folder: Path) -> None:
    request = _key_and_certificate(folder, "ca", "/CN=inferrun-devcluster")
    run([*request, "-addext", "keyUsage=critical,keyCertSign,cRLSign"])
    (folder / "ca.crt.partial").replace(folder / "ca.crt")


def _sign(folder: Path, identity: Identity) -> None:
    usage = "serverAuth,clientAuth" if identity.alternative_names else "clientAuth"
    extensions = [
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-addext",
        f"extendedKeyUsage={usage}",
    ]
    if identity.alternative_names:
        extensions += ["-addext", f"subjectAltName={','.join(identity.alternative_names)}"]
    signer = ["-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")]
    run([*_key_and_certificate(folder, identity.file, identity.subject), *signer, *extensions])
    (folder / f"{identity.file}.crt.partial").replace(folder / f"{identity.file}.crt")


def kubeconfig(folder: Path, identity: str) -> str:
    """A kubeconfig in JSON (valid YAML) with inline keys, so that it can be copied as a single
    file."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "inferrun-devcluster",
            "contexts": [
                {
                    "name": "inferrun-devcluster",
                    "context": {"cluster": "inferrun-devcluster", "user": identity},
                }
            ],
            "clusters": [
                {
                    "name": "inferrun-devcluster",
                    "cluster": {
                        "server": f"https://{ADDRESS}:{PORTS.api}",
                        "certificate-authority-data": _inline(folder / "ca.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": identity,
                    "user": {
                        "client-certificate-data": _inline(folder / f"{identity}.crt"),
                        "client-key-data": _inline(folder / f"{identity}.key"),
                    },
                }
            ],
        },
        indent=2,
    )


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
