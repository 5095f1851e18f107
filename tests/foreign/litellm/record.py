"""LiteLLM's proxy in front of upstreams that are overloaded, refuse its key, know no model, or answer with null."""

import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"
ERRORS = {
    "overloaded": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "denied": (401, {"error": {"type": "invalid_request_error", "message": "Incorrect API key provided"}}),
    "unknown": (404, {"error": {"type": "not_found_error", "message": "no such model"}}),
    "bad": (400, {"error": {"type": "invalid_request_error", "message": "the prompt is not allowed"}}),
}


class Upstream(BaseHTTPRequestHandler):
    """Answers as its prompt asks for; it stands for a provider with OpenAI's API."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = sent["messages"][-1]["content"]
        message = {"role": "assistant", "content": None if prompt == "null" else prompt}
        done = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "id": "1", "created": 1}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        status, body = ERRORS.get(prompt, (200, {**done, "object": "chat.completion", "model": "m", "usage": usage}))
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Nothing is logged."""


upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=upstream.serve_forever, daemon=True).start()
to = {"model": "openai/m", "api_base": f"http://127.0.0.1:{upstream.server_address[1]}/v1", "api_key": "k"}
allowed = {"dangerously_permit_weak_or_unset_master_key": True}
config = {
    "general_settings": allowed,
    "model_list": [{"model_name": "m", "litellm_params": to}],
    "router_settings": {"num_retries": 0},
}
with tempfile.TemporaryDirectory() as made:
    (Path(made) / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [Path(sys.executable).parent / "litellm", "--config", Path(made) / "config.yaml", "--port", port]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    with serving(*command, "--host", "127.0.0.1", ready=f"{url}/health/liveliness", env=offline, seconds=240):

        def recorded(name, prompts, expected):
            contract = {"kserve": {"protocolVersion": "openai", "modelName": "m"}, "request": {"prompt": "{{ p }}"}}
            rows = [{"p": prompt} for prompt in prompts]
            record(OUT / f"{name}.json", url, contract=contract, rows=rows, expected=expected)

        ok = {"prediction": {"text": "ok", "finish_reason": "stop"}}
        recorded("answers", ["ok", "null", "bad"], [ok, {"error": "invalid_answer"}, {"error": "http_400"}])
        recorded("denied-upstream", ["ok", "denied"], [ok, {"error": "http_401", "message": "returned 401"}])
        recorded("only-denied", ["denied"], {"code": 4, "message": "returned 401"})
        recorded("only-overloaded", ["overloaded"], {"code": 4, "message": "returned 5"})
