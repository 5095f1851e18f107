"""LiteLLM's proxy in front of an upstream that is overloaded, refuses its key, or answers with
null."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port, serving
from workers import MODEL, chats, worker

OUT = Path(sys.argv[1]).resolve() / "answers"
with tempfile.TemporaryDirectory() as made, worker() as (behind, _):
    to = {"model": f"openai/{MODEL}", "api_base": f"{behind}/v1", "api_key": "k"}
    config = {
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
        "model_list": [{"model_name": MODEL, "litellm_params": to}],
        # Otherwise it may answer 429 for a while, instead of what it is told, once the upstream has
        # refused a request: whether it does depends on when its callbacks are executed.
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    (Path(made) / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        Path(sys.executable).parent / "litellm",
        "--config",
        Path(made) / "config.yaml",
        "--port",
        port,
    ]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    with serving(
        *command, "--host", "127.0.0.1", ready=f"{url}/health/liveliness", env=offline, seconds=240
    ):
        ok, denied = (
            {"prediction": {"text": "ok", "finish_reason": "stop"}},
            {"error": "http_401", "message": "returned 401"},
        )
        refused = [{"error": "invalid_answer"}, {"error": "http_400"}]
        chats(OUT / "answers.json", url, ["ok", "null", "bad"], [ok, *refused])
        chats(OUT / "denied-upstream.json", url, ["ok", "denied"], [ok, denied])
        chats(OUT / "only-denied.json", url, ["denied"], {"code": 4, "message": "returned 401"})
        chats(
            OUT / "only-overloaded.json",
            url,
            ["overloaded"],
            {"code": 4, "message": "returned 529"},
        )
