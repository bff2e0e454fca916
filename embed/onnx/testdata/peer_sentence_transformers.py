"""Embeds texts with sentence-transformers, on torch or on ONNX Runtime, and prints what peer_onnxruntime.py prints."""

import json, resource, sys, time

import torch
from sentence_transformers import SentenceTransformer

folder, texts_file, threads, backend = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(threads)
texts = open(texts_file, encoding="utf-8").read().split("\n")
options = {}
if backend == "onnx":
    import onnxruntime as ort

    session = ort.SessionOptions()
    session.intra_op_num_threads = threads
    session.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options = {"provider": "CPUExecutionProvider", "session_options": session, "export": True}
model = SentenceTransformer(folder, device="cpu", backend=backend, model_kwargs=options)


def processor_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def embed(batch):
    return model.encode(batch, batch_size=32, show_progress_bar=False)


def speed(size):
    embed(texts[:size])
    done, began = 0, processor_time()
    while processor_time() - began < 0.7:
        for i in range(0, len(texts), size):
            embed(texts[i : i + size])
        done += len(texts)
    return done / (processor_time() - began)


def latency():
    took = []
    for text in texts:
        began = time.perf_counter()
        embed([text])
        took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2]


print(json.dumps({"batches": speed(32), "alone": speed(1), "latency": latency()}))
