# The control side: `python -m worker` and `python -m operator_shim`; the chart says which. The base may be any Debian-like
# image with Python 3.11 or newer and its venv module.
ARG BASE=python:3.11-slim-bookworm

# The project itself is installed, not only copied: its metadata carries its version and entry points.
FROM ${BASE} AS project
COPY requirements/build.txt /build/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /build/pip \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /build/pip/bin/pip \
    install --disable-pip-version-check --require-hashes -r /build/build.txt
COPY pyproject.toml LICENSE* /build/project/
COPY inferrun /build/project/inferrun
COPY workflows /build/project/workflows
COPY activities /build/project/activities
COPY worker /build/project/worker
COPY operator_shim /build/project/operator_shim
RUN touch /build/project/README.md /build/project/LICENSE \
 && /build/pip/bin/pip install --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --target /opt/project /build/project

FROM ${BASE}
COPY requirements/control.txt /opt/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --require-hashes -r /opt/control.txt \
 && rm -r /tmp/pip
COPY --from=project /opt/project /opt/project
ENV PATH=/opt/inferrun/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/project PYTHONUNBUFFERED=1
WORKDIR /opt/project
USER 65532:65532
