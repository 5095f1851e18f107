"""Prints an input file of OpenAI's Batch API: chat completions, an embedding as each tenth request,
and a request without content.

python make_batch.py 1500 > batch.jsonl
"""

import json
import sys

TOPICS = ("sepal", "petal", "stem", "leaf", "root", "seed", "colour")


def request(number: int, *, count: int) -> dict[str, object]:
    """One request. The one in the middle is rejected by servers, because its message has no
    content."""
    question = f"Describe the {TOPICS[number % len(TOPICS)]} of iris number {number}."
    if number % 10 == 9:
        return line(number, "/v1/embeddings", {"input": question})
    message = {"role": "user"} if number == count // 2 else {"role": "user", "content": question}
    return line(
        number, "/v1/chat/completions", {"messages": [message], "max_tokens": 48, "temperature": 0}
    )


def line(number: int, url: str, body: dict[str, object]) -> dict[str, object]:
    return {
        "custom_id": f"request-{number}",
        "method": "POST",
        "url": url,
        "body": {"model": "tiny", **body},
    }


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        print(json.dumps(request(number, count=int(sys.argv[1]))))
