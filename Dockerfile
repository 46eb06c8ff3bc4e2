# One image, two roles: `docker run apportion operator ...` and `docker run apportion agent ...`.
ARG PYTHON_VERSION=3.11

# The locked dependencies come first: they change less often than the code, so their layer is reused.
FROM python:${PYTHON_VERSION}-slim AS dependencies
COPY requirements/runtime.txt /build/requirements/runtime.txt
RUN python -m venv /app \
 && /app/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
    --require-hashes --no-deps --only-binary=:all: --requirement /build/requirements/runtime.txt

FROM python:${PYTHON_VERSION}-slim AS image
ENV PYTHONPATH=/app/source PYTHONUNBUFFERED=1
COPY --from=dependencies /app /app
COPY operator/apportion /app/source/apportion
COPY LICENSE /app/LICENSE
RUN /app/bin/python -m compileall -q /app/source
# The operator runs as nobody in particular; the agent's DaemonSet asks for root, because cutting a card needs it.
USER 65532:65532
ENTRYPOINT ["/app/bin/python", "-m", "apportion"]

# For Tilt: changed files are copied into the running container, by the user that it runs as.
FROM image AS development
USER 0:0
RUN chown -R 65532:65532 /app/source
USER 65532:65532

# What `docker build .` makes.
FROM image AS production
