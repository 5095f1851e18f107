# The control side: `python -m worker` and `python -m operator_shim`; the chart chooses. The base can be any Debian-like
# image with Python 3.11 or newer and its venv module; releases give it by digest (docs/contributing/release.md).
ARG BASE=python:3.11.14-slim-bookworm

# The library is a real distribution, so that packages which depend on it can be installed into an image made from this one.
FROM ${BASE} AS library
COPY requirements/build.txt /build/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /build/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /build/pip/bin/pip \
    install --disable-pip-version-check --require-hashes -r /build/build.txt
COPY pyproject.toml LICENSE* /build/source/
COPY inferrun /build/source/inferrun
RUN touch /build/source/README.md /build/source/LICENSE \
 && /build/pip/bin/pip wheel --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --wheel-dir /build/wheels /build/source \
 && /build/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --no-index --no-deps --no-cache-dir /build/wheels/*.whl

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY requirements/control.txt /opt/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --require-hashes -r /opt/control.txt \
 && rm -r /tmp/pip
COPY --from=library /opt/inferrun /opt/inferrun
# The programs run from the source tree: docs/decisions/0011-programs-run-from-the-source-tree.md.
COPY workflows /opt/project/workflows
COPY activities /opt/project/activities
COPY worker /opt/project/worker
COPY operator_shim /opt/project/operator_shim
COPY control /opt/project/control
# Otherwise each start compiles the source, because the program's user cannot write. The hash of the source makes the result the same
# in every build.
RUN /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/project
ENV PATH=/opt/inferrun/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/project PYTHONUNBUFFERED=1
WORKDIR /opt/project
USER 65532:65532
