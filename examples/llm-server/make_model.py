"""Writes a language model of half a megabyte with random weights: it answers nonsense, but a real
server serves it.

python make_model.py tiny.gguf
python serve.py tiny.gguf
"""

import sys

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 64, 4, 2, 128, 512
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

chance = np.random.default_rng(7)


def write_tokens(writer: gguf.GGUFWriter) -> int:
    """A token per byte, so that any text can be encoded, and the most common letters."""
    letters = ["▁".encode(), *(letter.encode() for letter in "etaoinshrdlu")]
    tokens = [
        b"<unk>",
        b"<s>",
        b"</s>",
        *(f"<0x{byte:02X}>".encode() for byte in range(256)),
        *letters,
    ]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(letters)])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    return len(tokens)


def write_weights(writer: gguf.GGUFWriter, *, tokens: int) -> None:
    """Random weights."""

    def random(name: str, *shape: int) -> None:
        writer.add_tensor(
            f"{name}.weight", (chance.standard_normal(shape) * 0.05).astype(np.float32)
        )

    def ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    random("token_embd", tokens, WIDTH)
    ones("output_norm")
    random("output", tokens, WIDTH)
    for layer in (f"blk.{number}" for number in range(LAYERS)):
        ones(f"{layer}.attn_norm")
        ones(f"{layer}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            random(f"{layer}.{name}", WIDTH, WIDTH)
        random(f"{layer}.ffn_gate", HIDDEN, WIDTH)
        random(f"{layer}.ffn_up", HIDDEN, WIDTH)
        random(f"{layer}.ffn_down", WIDTH, HIDDEN)


def main(path: str) -> None:
    """Write the file."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    tokens = write_tokens(writer)
    writer.add_vocab_size(tokens)
    write_weights(writer, tokens=tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
