"""Makes model folders of many kinds, with random weights, and what sentence-transformers answers for some texts.

    pip install sentence-transformers==6.2.0 && python folders.py SEED FOLDERS > folders.jsonl

A line is a folder: its files in base64, the texts, the prompt's name, and the vectors.
"""

import base64, json, os, random, shutil, sys, tempfile, warnings

warnings.filterwarnings("ignore")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

tf.logging.set_verbosity_error()

WORDS = "red green blue cup lamp sea of the a house at night Zürich naïve größe search query passage find".split()
SPACES = [" ", "  ", "\t", "\n", " \u00a0", "\u3000"]


def text(r, longest):
    parts = []
    for _ in range(r.randrange(longest)):
        word = r.choice(WORDS) if r.random() < 0.8 else "".join(r.choices("abcdefghiABCDEFGHI.,-_0123456789éß東京", k=r.randint(1, 9)))
        parts.append(word + r.choice(SPACES if r.random() < 0.2 else [" "]))
    return "".join(parts)


def word_piece(r, kind):
    pad, unk, cls, sep, mask = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if kind != "mpnet" else ("<pad>", "[UNK]", "<s>", "</s>", "<mask>")
    first = [pad, unk, cls, sep, mask] if kind != "mpnet" else [cls, pad, sep, "<unk>", unk]
    words = [w.lower() for w in WORDS] + list("abcdefghijklmnopqrstuvwxyz0123456789.,-_:") + ["東"]
    vocabulary = {w: i for i, w in enumerate(dict.fromkeys(first + words + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"]))}
    if kind == "mpnet":
        vocabulary[mask] = len(vocabulary)
    lower = r.random() < 0.8
    t = Tokenizer(models.WordPiece(vocabulary, unk_token=unk))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    if kind == "mpnet":
        t.post_processor = processors.RobertaProcessing((sep, vocabulary[sep]), (cls, vocabulary[cls]), add_prefix_space=False)
    else:
        t.post_processor = processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])])
    if r.random() < 0.5:
        return (tf.MPNetTokenizer if kind == "mpnet" else tf.BertTokenizer)(vocab=vocabulary, do_lower_case=lower, strip_accents=r.choice([None, lower]))
    return tf.PreTrainedTokenizerFast(tokenizer_object=t, unk_token=unk, pad_token=pad, cls_token=cls, sep_token=sep, mask_token=mask)


def byte_pairs(r):
    t = Tokenizer(models.BPE(unk_token=None))
    space = r.random() < 0.5
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([text(r, 30) for _ in range(30)], trainers.BpeTrainer(vocab_size=300, show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=space)
    return tf.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
        bos_token="<s>", eos_token="</s>", mask_token=tf.AddedToken("<mask>", lstrip=True))


def unigram(r):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator([text(r, 30) for _ in range(40)], trainers.UnigramTrainer(vocab_size=90, show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>"))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tf.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
        bos_token="<s>", eos_token="</s>", mask_token="<mask>")


KINDS = {
    "bert": (tf.BertConfig, tf.BertModel, tf.BertForMaskedLM),
    "roberta": (tf.RobertaConfig, tf.RobertaModel, tf.RobertaForMaskedLM),
    "xlm-roberta": (tf.XLMRobertaConfig, tf.XLMRobertaModel, tf.XLMRobertaForMaskedLM),
    "camembert": (tf.CamembertConfig, tf.CamembertModel, tf.CamembertForMaskedLM),
    "distilbert": (tf.DistilBertConfig, tf.DistilBertModel, tf.DistilBertForMaskedLM),
    "mpnet": (tf.MPNetConfig, tf.MPNetModel, tf.MPNetForMaskedLM),
}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "gelu_fast", "quick_gelu", "tanh", "mish", "gelu_python", "gelu_accurate",
    "swish", "sigmoid", "leaky_relu"]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
DENSE = [torch.nn.Tanh, torch.nn.Identity, torch.nn.ReLU, torch.nn.Sigmoid, torch.nn.GELU, torch.nn.SiLU, torch.nn.Mish, torch.nn.LeakyReLU]


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    json.dump(value, open(path, "w"))


def randomize(module):
    for p in module.parameters():
        p.data = 0.5 * torch.randn_like(p) if p.dim() > 1 else p.data + 0.2 * torch.randn_like(p)


def transformer(r, folder, notes):
    kind = r.choice(list(KINDS))
    config_of, base, head = KINDS[kind]
    tokenizer = word_piece(r, kind) if kind in ("bert", "distilbert", "mpnet") else byte_pairs(r) if kind == "roberta" else unigram(r)
    heads = r.choice([1, 2, 3, 4])
    size = heads * r.choice([2, 3, 4])
    places = r.choice([24, 32, 40, 130])
    layers, inner, act = r.randint(1, 2), r.choice([5, 8, 17]), r.choice(ACTIVATIONS)
    common = dict(vocab_size=len(tokenizer), max_position_embeddings=places)
    if kind == "distilbert":
        config = config_of(**common, dim=size, n_layers=layers, n_heads=heads, hidden_dim=inner, activation=act, sinusoidal_pos_embds=r.random() < 0.3)
    else:
        more = {}
        if kind == "mpnet":
            more["relative_attention_num_buckets"] = r.choice([32, 32, 33, 64])
        else:
            more["type_vocab_size"] = r.choice([1, 2])
        if kind in ("roberta", "xlm-roberta", "camembert"):
            more["pad_token_id"] = 1
        config = config_of(**common, hidden_size=size, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, hidden_act=act,
            layer_norm_eps=r.choice([1e-12, 1e-5, 1e-3]), **more)
    notes.append(f"{kind} {act}")
    way = r.choice(["base", "head", "no pooler", "sharded", "half", "bfloat16", "mixed", "old names"])
    notes.append(way)
    model = (head if way == "head" else base)(config, **({"add_pooling_layer": False} if way == "no pooler" and kind != "distilbert" else {}))
    randomize(model)
    shard = {"max_shard_size": "3KB"} if way == "sharded" else {}
    if way in ("half", "bfloat16"):
        model.to(torch.float16 if way == "half" else torch.bfloat16)
    model.save_pretrained(folder, **shard)
    if way in ("mixed", "old names"):
        path = folder + "/model.safetensors"
        tensors = load_file(path)
        if way == "mixed":
            tensors = {n: t.to(r.choice([torch.float16, torch.bfloat16, torch.float32])) for n, t in tensors.items()}
            tensors["embeddings.position_ids"] = torch.arange(places)[None]
        elif kind == "bert":
            tensors = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t for n, t in tensors.items()}
        save_file(tensors, path, {"format": "pt"})
    if r.random() < 0.3:
        tokenizer.truncation_side = "left"
        notes.append("cut left")
    tokenizer.model_max_length = r.choice([12, 16, 512, int(1e30)])
    tokenizer.save_pretrained(folder)
    if kind in ("bert", "distilbert") and type(tokenizer) is tf.BertTokenizer and r.random() < 0.5:  # as before there was tokenizer.json
        old_tokenizer(r, folder, tokenizer)
        notes.append("vocab.txt")
    if r.random() < 0.2 and not shard:  # a config that leaves out what the class has by default
        settings = json.load(open(folder + "/config.json"))
        plain = config_of()
        for key in list(settings):
            if key != "model_type" and hasattr(plain, key) and getattr(plain, key) == settings[key]:
                del settings[key]
        write(folder + "/config.json", settings)
        notes.append("spare config")
    return size, places - (2 if kind not in ("bert", "distilbert") else 0)


def old_tokenizer(r, folder, tokenizer):
    words = sorted(tokenizer.get_vocab().items(), key=lambda w: w[1])
    assert [i for _, i in words] == list(range(len(words)))
    open(folder + "/vocab.txt", "w", encoding="utf-8").write("".join(w + "\n" for w, _ in words))
    os.remove(folder + "/tokenizer.json")
    path = folder + "/tokenizer_config.json"
    settings = json.load(open(path))
    keep = ["do_lower_case", "strip_accents", "model_max_length", "tokenizer_class", "truncation_side"]
    write(path, {k: settings[k] for k in keep if k in settings and (k != "tokenizer_class" or r.random() < 0.7)})


def behind(r, made, notes):
    """The modules behind the pooling."""
    for _ in range(r.choice([0, 0, 0, 1, 1, 2, 3, 6])):
        what = r.choice(["dense", "dense", "dense", "norm", "dropout", "normalize", "residual"])
        notes.append(what)
        if what in ("dense", "residual"):
            out = made if r.random() < 0.3 else r.choice([3, 8, 13])
            d = Dense(made, out, bias=r.random() < 0.7, activation_function=r.choice(DENSE)(), use_residual=what == "residual")
            randomize(d)
            made = out
            yield d
        elif what == "norm":
            n = LayerNorm(made)
            randomize(n)
            yield n
        elif what == "dropout":
            yield Dropout(0.3)
        else:
            yield Normalize()


def old_pooling(path):
    c = json.load(open(path))
    modes = c.pop("pooling_mode")
    modes = [modes] if isinstance(modes, str) else modes
    c["word_embedding_dimension"] = c.pop("embedding_dimension")
    for mode, key in zip(MODES, ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]):
        c["pooling_mode_" + key] = mode in modes
    write(path, c)


def make(r, work):
    notes = []
    plain = os.path.join(work, "plain")
    size, places = transformer(r, plain, notes)
    folder = os.path.join(work, "model")
    prompt = None
    if r.random() < 0.15:
        shutil.copytree(plain, folder)
        notes.append("plain folder")
        model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32})
    else:
        modes = tuple(r.sample(MODES, r.choice([1, 1, 1, 2, 3])))
        pooling = Pooling(size, modes, include_prompt=r.random() < 0.5)
        notes.append("+".join(modes) + ("" if pooling.include_prompt else " without prompt"))
        first = Transformer(plain, model_kwargs={"dtype": torch.float32})
        model = SentenceTransformer(modules=[first, pooling, *behind(r, pooling.get_embedding_dimension(), notes)], device="cpu",
            prompts={"query": "query: ", "passage": "find the passage"}, truncate_dim=r.choice([None, None, 2, 100]))
        model.save(folder, create_model_card=False)
        if r.random() < 0.5:
            old_pooling(folder + "/1_Pooling/config.json")
            notes.append("old pooling")
        at = folder
        if r.random() < 0.4:
            at = folder + "/0_Transformer"
            os.mkdir(at)
            for name in os.listdir(folder):
                if name not in ("0_Transformer", "modules.json", "config_sentence_transformers.json") and os.path.isfile(os.path.join(folder, name)):
                    os.rename(os.path.join(folder, name), os.path.join(at, name))
            modules = json.load(open(folder + "/modules.json"))
            modules[0]["path"] = "0_Transformer"
            write(folder + "/modules.json", modules)
            notes.append("subfolder")
        for name in os.listdir(at):  # the weights as transformers wrote them
            if name.startswith("model") and name.endswith((".safetensors", "index.json")):
                os.remove(os.path.join(at, name))
        if "vocab.txt" in os.listdir(plain):
            os.remove(at + "/tokenizer.json")
        for name in os.listdir(plain):
            if name.startswith("model") or name in ("config.json", "vocab.txt", "tokenizer_config.json"):
                shutil.copy(os.path.join(plain, name), os.path.join(at, name))
        path = at + "/sentence_bert_config.json"
        if r.random() < 0.5:
            c = {"max_seq_length": r.choice([8, 14, places, None]), "do_lower_case": r.random() < 0.3}
            write(path, c)
            notes.append(str(c))
        settings = json.load(open(folder + "/config_sentence_transformers.json"))
        if r.random() < 0.3:
            settings["default_prompt_name"] = r.choice(["query", "passage"])
            notes.append("default " + settings["default_prompt_name"])
        write(folder + "/config_sentence_transformers.json", settings)
        if r.random() < 0.3:
            prompt = r.choice(["query", "passage"])
            notes.append("prompt " + prompt)
        model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32})
        if max(len(model.tokenizer(p).input_ids) for p in model.prompts.values()) >= model.max_seq_length:
            prompt = model.default_prompt_name = settings["default_prompt_name"] = None
            write(folder + "/config_sentence_transformers.json", settings)
    model.max_seq_length = min(model.max_seq_length, places)  # where sentence-transformers would look for positions that are not there
    texts = ["", " ", "red cup"] + [text(r, r.choice([4, 12, 40])) for _ in range(6)]
    vectors = [[float(f"{x:.8g}") for x in model.encode([t], prompt_name=prompt, show_progress_bar=False)[0].tolist()] for t in texts]
    files = {}
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(at, name)
            if not name.endswith(".md"):
                files[os.path.relpath(path, folder)] = base64.b64encode(open(path, "rb").read()).decode()
    return {"name": ", ".join(notes), "files": files, "prompt": prompt or "", "limit": model.max_seq_length, "texts": texts, "vectors": vectors}


def main(seed, count):
    print(f"seed {seed}", file=sys.stderr)
    for n in range(count):
        r = random.Random(f"{seed} {n}")
        torch.manual_seed(r.randrange(2**60))
        with tempfile.TemporaryDirectory() as work:
            line = make(r, work)
        line["name"] = f"{seed}/{n}: " + line["name"]
        print(json.dumps(line))


main(sys.argv[1], int(sys.argv[2]))
