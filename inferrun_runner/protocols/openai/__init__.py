"""OpenAI's formats and protocol: input files of its Batch API, and servers of language models and
embeddings."""
