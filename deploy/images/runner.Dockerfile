# The program in a Job's Pod. Any Debian-like image with Python 3.11 or newer and its venv module can be the base.
ARG BASE=python:3.11-slim-bookworm

# The project itself is installed, not only copied: stores, protocols and formats are found by its entry points.
FROM ${BASE} AS project
COPY requirements/build.txt /build/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /build/pip \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /build/pip/bin/pip \
    install --disable-pip-version-check --require-hashes -r /build/build.txt
COPY pyproject.toml LICENSE* /build/project/
COPY inferrun /build/project/inferrun
COPY runner /build/project/runner
RUN touch /build/project/README.md /build/project/LICENSE \
 && /build/pip/bin/pip install --disable-pip-version-check --no-index --no-deps --no-build-isolation \
    --target /opt/project /build/project

FROM ${BASE}
COPY requirements/runner.txt /opt/
RUN --mount=type=cache,target=/root/.cache/pip python3 -m venv /tmp/pip && python3 -m venv --without-pip /opt/inferrun \
 && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /tmp/pip/bin/pip --python /opt/inferrun/bin/python \
    install --disable-pip-version-check --require-hashes -r /opt/runner.txt \
 && rm -r /tmp/pip
COPY --from=project /opt/project /opt/project
ENV PATH=/opt/inferrun/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/project PYTHONUNBUFFERED=1
WORKDIR /opt/project
USER 65532:65532
ENTRYPOINT ["python", "-m", "runner"]
