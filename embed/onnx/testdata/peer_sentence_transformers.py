"""Embeds texts with sentence-transformers, on torch or on ONNX Runtime, and prints how fast: see speed.py."""

import sys

import torch
from sentence_transformers import SentenceTransformer

import speed

folder, texts_file, threads, backend = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if threads > 0:  # else the defaults
    torch.set_num_threads(threads)
texts = open(texts_file, encoding="utf-8").read().split("\n")
options = {}
if backend == "onnx":
    import onnxruntime as ort

    session = ort.SessionOptions()
    if threads > 0:
        session.intra_op_num_threads = threads
        session.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options = {"provider": "CPUExecutionProvider", "session_options": session, "export": True}
model = SentenceTransformer(folder, device="cpu", backend=backend, model_kwargs=options)


def embed(batch):
    return model.encode(batch, batch_size=32, show_progress_bar=False)


speed.report(texts, threads, embed)
