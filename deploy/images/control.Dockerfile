# The control side: `python -m worker` and `python -m operator_shim`; the chart chooses. The base can be any Debian-like
# image with Python 3.11 or newer and its venv module; releases give it by digest (docs/contributing/release.md).
#
# Two builds are equal. Byte code therefore contains a hash of its source instead of its time, and without a check: a release gives all
# files the time of its commit, after which Python would compile each module at each start.
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
 && SOURCE_DATE_EPOCH=1700000000 /build/pip/bin/pip wheel --disable-pip-version-check --no-index --no-deps \
    --no-build-isolation --wheel-dir /build/wheels /build/source \
 && /build/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --no-index --no-deps --no-cache-dir --no-compile /build/wheels/*.whl \
 && /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/inferrun

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY requirements/control.txt /opt/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --require-hashes --no-compile -r /opt/control.txt \
 && /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/inferrun \
 && rm -r /tmp/pip
COPY --from=library /opt/inferrun /opt/inferrun
# The programs run from the source tree: docs/decisions/0011-programs-run-from-the-source-tree.md.
COPY workflows /opt/project/workflows
COPY activities /opt/project/activities
COPY worker /opt/project/worker
COPY operator_shim /opt/project/operator_shim
COPY control /opt/project/control
# Otherwise each start compiles the source, because the program's user cannot write.
RUN /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/project
ENV PATH=/opt/inferrun/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/project PYTHONUNBUFFERED=1
WORKDIR /opt/project
USER 65532:65532
