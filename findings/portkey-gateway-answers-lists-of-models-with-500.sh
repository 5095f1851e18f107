#!/usr/bin/env bash
# Portkey's AI gateway 1.15.2 (npm @portkey-ai/gateway) on Node.js answers each GET /v1/models with 500, although its upstream answers
# it with 200: it changes the headers of a response that fetch returned, which are immutable (its log: "TypeError: immutable"). Chat
# completions through the same gateway work. A client that takes the list of models for a sign of life never begins.
# Output: upstream 200, through the gateway: chat 200, models 500
set -euo pipefail
folder=$(mktemp -d)
processes=()
trap 'for one in "${processes[@]}"; do kill "$one" || true; done; rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts @portkey-ai/gateway@1.15.2
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
upstream=$(free)
gateway=$(free)
cat >upstream.py <<'PYTHON'
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

CHAT = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}]}
MODELS = {"object": "list", "data": [{"id": "m", "object": "model"}]}


class Upstream(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(MODELS)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(CHAT)


HTTPServer(("127.0.0.1", int(sys.argv[1])), Upstream).serve_forever()
PYTHON
python3 upstream.py "$upstream" &
processes+=($!)
TRUSTED_CUSTOM_HOSTS=127.0.0.1 node node_modules/@portkey-ai/gateway/build/start-server.js --port="$gateway" --headless >log 2>&1 &
processes+=($!)
ask() {
  curl -s -o /dev/null -w '%{http_code}' --retry 20 --retry-connrefused --retry-delay 1 "$@" -H 'authorization: Bearer x' \
    -H 'content-type: application/json' -H 'x-portkey-provider: openai' -H "x-portkey-custom-host: http://127.0.0.1:$upstream/v1"
}
direct=$(curl -s -o /dev/null -w '%{http_code}' --retry 20 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$upstream/v1/models")
chat=$(ask "http://127.0.0.1:$gateway/v1/chat/completions" -d '{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')
models=$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$gateway/v1/models" -H 'authorization: Bearer x' \
  -H 'x-portkey-provider: openai' -H "x-portkey-custom-host: http://127.0.0.1:$upstream/v1")
echo "@portkey-ai/gateway $(node -p 'require("./node_modules/@portkey-ai/gateway/package.json").version'), Node.js $(node -v)"
echo "upstream $direct, through the gateway: chat $chat, models $models"
grep -q 'TypeError: immutable' log
[ "$direct $chat $models" = "200 200 500" ]
