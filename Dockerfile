# docker build -t specdemo .
# docker run --rm -p 7860:7860 -v specdemo:/home/specdemo/.cache specdemo
# With CUDA: docker build --build-arg TORCH_FROM=https://pypi.org/simple -t specdemo . and docker run --gpus all ...
# The tests: docker run --rm specdemo sh -c ".venv/bin/pip install -r requirements-dev.txt && .venv/bin/python -m pytest"
FROM python:3.11-slim

# Where torch is from: PyPI's own has CUDA inside, and some gigabytes of it.
ARG TORCH_FROM=https://download.pytorch.org/whl/cpu

RUN useradd --create-home --uid 1000 specdemo
USER specdemo
RUN mkdir /home/specdemo/demo /home/specdemo/.cache
WORKDIR /home/specdemo/demo

COPY --chown=specdemo requirements.txt .
RUN python3 -m venv .venv && grep '^torch==' requirements.txt > torch.txt \
    && .venv/bin/pip install --no-cache-dir --index-url "$TORCH_FROM" -r torch.txt \
    && .venv/bin/pip install --no-cache-dir -r requirements.txt

COPY --chown=specdemo . .
EXPOSE 7860
CMD [".venv/bin/python", "app.py", "--host", "0.0.0.0", "--public"]
