"""Embeds texts with ONNX files as somebody does by hand with onnxruntime, tokenizers and numpy, and prints the vectors.

    pip install onnxruntime==1.31.1 tokenizers==0.23.3 && python foreign.py TEXTS.json FOLDER...

A line is the vectors of a folder: the mean over the tokens where the graph does not pool. Each text runs by itself, in as many rows and padded
to as many tokens as the graph fixes.
"""

import json, os, sys

import numpy as np
import onnxruntime as ort
import tokenizers

TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def embed(folder, texts):
    session = ort.InferenceSession(os.path.join(folder, "model.onnx"), providers=["CPUExecutionProvider"])
    rows, tokens = next(i for i in session.get_inputs() if "ids" in i.name).shape
    limit = json.load(open(os.path.join(folder, "sentence_bert_config.json")))["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    fixed = isinstance(tokens, int)
    tokenizer.enable_truncation(min(limit, tokens) if fixed else limit)
    tokenizer.enable_padding(length=tokens) if fixed else tokenizer.no_padding()
    vectors = []
    for text in texts:
        e = tokenizer.encode(text)
        feed = {}
        for i in session.get_inputs():
            kind = i.name.split(":")[0]
            row = (e.attention_mask if "mask" in kind else e.type_ids if "type" in kind or "segment" in kind
                else range(len(e.ids)) if "position" in kind else e.ids)
            feed[i.name] = np.array([list(row)] * (rows if isinstance(rows, int) else 1), dtype=TYPES[i.type])
        answer = session.run(None, feed)[0].astype(np.float64)
        if answer.ndim == 3:
            mask = np.array(e.attention_mask)[:, None]
            answer = (answer * mask).sum(1) / mask.sum()
        vectors.append(answer[0].tolist())
    return vectors


texts = json.load(open(sys.argv[1]))
for folder in sys.argv[2:]:
    print(json.dumps(embed(folder, texts)))
