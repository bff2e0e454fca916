"""Makes architectures.jsonl.gz: small models with random weights, and what transformers answers for random tokens.

    pip install torch transformers safetensors && python architectures.py architectures.jsonl.gz

A line is a model: its config.json, its model.safetensors in base64, and texts as token ids with the mean and the last of their tokens'
vectors. Padding at the right or the left must not matter, so each text is also run in a padded batch, which is compared here.
"""

import base64, gzip, json, random, sys, tempfile

import torch
import transformers as tf

VOCABULARY, LONGEST = 61, 190


def models():
    size = dict(vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
    after_padding = dict(size, max_position_embeddings=LONGEST + 2, pad_token_id=1, layer_norm_eps=1e-5)
    yield "bert", tf.BertConfig(**size, max_position_embeddings=LONGEST), tf.BertModel, torch.float32
    yield "bert with relu in half precision", tf.BertConfig(**size, max_position_embeddings=LONGEST, hidden_act="relu"), tf.BertModel, torch.float16
    yield "bert with gelu_new", tf.BertConfig(**size, max_position_embeddings=LONGEST, hidden_act="gelu_new"), tf.BertModel, torch.float32
    yield "bert with silu", tf.BertConfig(**size, max_position_embeddings=LONGEST, hidden_act="silu"), tf.BertModel, torch.float32
    yield "bert with a head", tf.BertConfig(**size, max_position_embeddings=LONGEST), tf.BertForMaskedLM, torch.float32
    yield "roberta", tf.RobertaConfig(**after_padding, type_vocab_size=1), tf.RobertaModel, torch.float32
    yield "xlm-roberta in bfloat16", tf.XLMRobertaConfig(**after_padding, type_vocab_size=1), tf.XLMRobertaModel, torch.bfloat16
    yield "camembert", tf.CamembertConfig(**after_padding, type_vocab_size=1), tf.CamembertModel, torch.float32
    yield "distilbert", tf.DistilBertConfig(vocab_size=VOCABULARY, dim=24, n_layers=2, n_heads=3, hidden_dim=40,
        max_position_embeddings=LONGEST), tf.DistilBertModel, torch.float32
    yield "mpnet", tf.MPNetConfig(**after_padding), tf.MPNetModel, torch.float32


def answer(model, ids, padding, left):
    pad = [model.config.pad_token_id] * padding
    mask = [0] * padding
    row, mask = (pad + ids, mask + [1] * len(ids)) if left else (ids + pad, [1] * len(ids) + mask)
    with torch.no_grad():
        out = model(input_ids=torch.tensor([row]), attention_mask=torch.tensor([mask]), output_hidden_states=True)
    hidden = out.hidden_states[-1][0]
    return hidden[padding:] if left else hidden[: len(ids)]


def main(path):
    random.seed(7)
    torch.manual_seed(7)
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        for name, config, make, dtype in models():
            config.initializer_range = 0.4  # so that no weight is too small to matter
            model = make(config).eval()
            for p in model.parameters():
                p.data += 0.1 * torch.randn_like(p)
                p.data = p.data.to(dtype).float()
            texts = []
            for n in (1, 2, 3, 9, 17, 40, 129, LONGEST):
                ids = [random.randrange(4, VOCABULARY) for _ in range(n)]
                hidden = answer(model, ids, 0, False)
                assert torch.allclose(hidden, answer(model, ids, LONGEST - n, False), atol=1e-4)
                texts.append({"ids": ids, "mean": hidden.mean(0).tolist(), "last": hidden[-1].tolist()})
            with tempfile.TemporaryDirectory() as folder:
                model.to(dtype).save_pretrained(folder, safe_serialization=True)
                weights = open(folder + "/model.safetensors", "rb").read()
                settings = json.load(open(folder + "/config.json"))
            line = {"name": name, "config": settings, "weights": base64.b64encode(weights).decode(), "texts": texts}
            out.write((json.dumps(line) + "\n").encode())
            print(name, len(weights))


main(sys.argv[1])
