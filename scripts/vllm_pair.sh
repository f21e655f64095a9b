#!/usr/bin/env bash
# Starts two vLLM servers of one model, a plain and a speculative one, and says how to race them. Ctrl-C ends both.
#
#   scripts/vllm_pair.sh MODEL [option of vllm serve ...]
#
# MODEL is a folder or a hub id; the options go to both servers. In the environment:
#   SPECULATIVE_CONFIG  how the second one drafts (n-gram lookup, four tokens)
#   BASELINE_PORT, SPECULATIVE_PORT  (8000, 8001)
#   BASELINE_GPUS, SPECULATIVE_GPUS  as CUDA_VISIBLE_DEVICES; without them both servers see every device
#   VLLM  the command (vllm)
# On one GPU give both a share: --gpu-memory-utilization 0.4. On a CPU: --enforce-eager --max-model-len 1024, with
# VLLM_CPU_KVCACHE_SPACE=2 in the environment.
set -euo pipefail

if [ $# -lt 1 ]; then
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
model=$1
shift
vllm=${VLLM:-vllm}
config=${SPECULATIVE_CONFIG:-'{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3}'}
ports=("${BASELINE_PORT:-8000}" "${SPECULATIVE_PORT:-8001}")
pids=()

if ! command -v "$vllm" >/dev/null; then
  echo "There is no command $vllm: install vLLM in an environment of its own, or name it with VLLM." >&2
  exit 1
fi

end() {
  trap - EXIT
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
}
trap end EXIT
trap 'exit 130' INT TERM

start() { # start PORT DEVICES OPTIONS...: on this machine alone; without the prefix cache, so that a second run is as long
  local port=$1 devices=$2
  shift 2
  if [ -n "$devices" ]; then export CUDA_VISIBLE_DEVICES=$devices; fi
  exec "$vllm" serve "$model" --host 127.0.0.1 --port "$port" --served-model-name model --no-enable-prefix-caching "$@"
}

answers() { curl --silent --fail --max-time 2 --noproxy '*' "http://127.0.0.1:$1/health" >/dev/null; }

for port in "${ports[@]}"; do
  if answers "$port"; then
    echo "A server already answers on port $port: end it, or set BASELINE_PORT and SPECULATIVE_PORT." >&2
    exit 1
  fi
done

help=$("$vllm" serve --help=all 2>/dev/null || true)
knows() { # knows OPTION WITHOUT: whether this vLLM has it, and what comes of it where not
  if [[ $help != *"$1"* ]]; then
    echo "This vLLM has no $1: $2." >&2
    return 1
  fi
}

wait_for() { # wait_for PID PORT
  until answers "$2"; do
    if ! kill -0 "$1" 2>/dev/null; then
      echo "The server for port $2 ended before it was ready: its last lines say why." >&2
      exit 1
    fi
    sleep 0.3
  done
}

if knows --enable-per-request-metrics "the clock will be that of arrivals"; then
  set -- --enable-per-request-metrics "$@"
fi
speculative=(--speculative-config "$config")
if knows --per-request-spec-decode-metrics "who wrote a token will be known where the counters tell it"; then
  speculative+=(--per-request-spec-decode-metrics detailed)
fi

# One after the other: each measures the memory that is free when it starts.
start "${ports[0]}" "${BASELINE_GPUS:-}" "$@" &
pids+=($!)
wait_for "${pids[0]}" "${ports[0]}"
start "${ports[1]}" "${SPECULATIVE_GPUS:-}" "${speculative[@]}" "$@" &
pids+=($!)
wait_for "${pids[1]}" "${ports[1]}"

cat <<END
Both are ready. In another terminal, the page or one race:

.venv/bin/python app.py --baseline-url http://127.0.0.1:${ports[0]} --speculative-url http://127.0.0.1:${ports[1]}
.venv/bin/python -m specdemo remote --baseline-url http://127.0.0.1:${ports[0]} --speculative-url http://127.0.0.1:${ports[1]} "Why is the sky blue?"
END
wait -n
echo "One of the servers ended; the other one is ended too." >&2
exit 1
