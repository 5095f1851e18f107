"""llama.cpp's server with the tiny model of examples/llm-server: chats, completions, embeddings, a
prompt that is too long."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import REPOSITORY, free_port, record, serving

OUT = Path(sys.argv[1]).resolve() / "answers"
EXAMPLE = REPOSITORY / "examples" / "llm-server"
KSERVE = {"protocolVersion": "openai", "modelName": "tiny"}

with tempfile.TemporaryDirectory() as made:
    model, port = Path(made) / "tiny.gguf", free_port()
    subprocess.run([sys.executable, EXAMPLE / "make_model.py", model], check=True)
    url = f"http://127.0.0.1:{port}"
    with serving(
        sys.executable, EXAMPLE / "serve.py", model, "--port", port, ready=f"{url}/health"
    ):

        def recorded(name, rows, expected, **request):
            request = {"prompt": "{{ p }}", "maxTokens": 4, "body": {"temperature": 0}, **request}
            record(
                OUT / f"{name}.json",
                url,
                contract={"kserve": KSERVE, "request": request},
                rows=rows,
                expected=expected,
            )

        cut = {"prediction": {"finish_reason": "length", "completion_tokens": 4}}
        rejected = {"error": "http_400", "message": "exceed_context_size_error"}
        rows = [{"p": "one"}, {"p": "long " * 300}]
        recorded("chat", rows, [cut, rejected])
        recorded("completion", rows, [cut, rejected], task="Completion")
        recorded("response", rows[:1], [cut], task="Response")  # it says "completed"
        numbers = {"task": "Embedding", "maxTokens": 0, "body": {}}
        recorded("embedding", [{"p": "one"}, {"p": "two"}], [{}, {}], **numbers)
