# A model as a service (docs/deploy.md). It was never built.
#
#   docker build -t egt .
#   docker run -e EGT_TOKEN -p 127.0.0.1:8000:8000 -v ./runs/data:/model:ro egt
#
# With CUDA (never run): --build-arg TORCH=https://download.pytorch.org/whl/cu128, and `docker run --gpus all`.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG TORCH=https://download.pytorch.org/whl/cpu
COPY --from=build /wheels /wheels
# libgomp computes; libxrender and libxext are what RDKit loads.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 libxrender1 libxext6 \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --index-url "$TORCH" torch \
    && pip install --no-cache-dir "$(echo /wheels/*.whl)[mol]" \
    && useradd --create-home egt
USER egt
ENV EGT_CACHE_DIR=/tmp/egt
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["egt", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
