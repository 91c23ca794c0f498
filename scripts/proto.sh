#!/usr/bin/env bash
# Generates proto/*_pb2* with the oldest grpcio-tools that we support: newer grpcio and protobuf run such code, older ones refuse newer code.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --disable-pip-version-check --quiet 'grpcio-tools==1.76.0' 'setuptools<81'
"$tools/bin/python" -m grpc_tools.protoc --proto_path=. \
    --python_out=. --pyi_out=. --grpc_python_out=. airflow_provider_sfevents/proto/pubsub_api.proto
