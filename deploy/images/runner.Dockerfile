# The program in a Job's Pod. The base can be any Debian-like image with Python 3.11 or newer and its venv module; releases give
# it by digest (docs/contributing/release.md).
#
# Two builds are equal. Byte code therefore contains a hash of its source instead of its time, and without a check: a release gives all
# files the time of its commit, after which Python would compile each module at each start.
ARG BASE=python:3.11.14-slim-bookworm

# The program and the library are real distributions, so that packages which depend on them can be installed into an image made from
# this one. The label krateo is such a package.
FROM ${BASE} AS library
COPY requirements/build.txt /build/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /build/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /build/pip/bin/pip \
    install --disable-pip-version-check --require-hashes -r /build/build.txt
COPY pyproject.toml LICENSE* /build/source/
COPY inferrun /build/source/inferrun
COPY inferrun_runner /build/inferrun-runner
COPY plugins/inferrun-krateo /build/inferrun-krateo
RUN touch /build/source/README.md /build/source/LICENSE \
 && SOURCE_DATE_EPOCH=1700000000 /build/pip/bin/pip wheel --disable-pip-version-check --no-index --no-deps \
    --no-build-isolation --wheel-dir /build/wheels /build/source /build/inferrun-runner /build/inferrun-krateo \
 && /build/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --no-index --no-deps --no-cache-dir --no-compile /build/wheels/*.whl \
 && /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/inferrun

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY requirements/runner.txt /opt/
# Arrow's Flight and its S3 client are a third of pyarrow, and the runner does not use them (tests/unit/deploy/test_runner_image.py).
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --require-hashes --no-compile -r /opt/runner.txt \
 && /opt/inferrun/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/inferrun \
 && cd /opt/inferrun/lib/python3*/site-packages/pyarrow \
 && rm -r libarrow_flight* libarrow_python_flight* _flight* libarrow_s3* _s3fs* tests include \
 && rm -r /tmp/pip
COPY --from=library /opt/inferrun /opt/inferrun
# Pydantic would look for plug-ins of its own in all packages, at each start. glibc would give each thread memory of its own, which
# grows with the time for which a run lasts, and the allocator of the HTTP client would take whole pages of 2 MiB.
ENV PATH=/opt/inferrun/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYDANTIC_DISABLE_PLUGINS=__all__ \
    MALLOC_ARENA_MAX=2 MIMALLOC_ALLOW_THP=0
WORKDIR /opt/inferrun
USER 65532:65532
ENTRYPOINT ["python", "-m", "inferrun_runner"]
