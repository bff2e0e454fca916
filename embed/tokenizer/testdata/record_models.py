"""Prints what Hugging Face's tokenizers answers for models of each kind, which are trained here, on random texts.

    pip install tokenizers==0.23.3 sentencepiece==0.2.1
    python record_models.py SEED TOKENS > models.jsonl

A line for each tokenizer.json, with texts and pairs of texts, cut at a limit or whole, and what they become: ids, type ids, and
offsets in bytes. The tests compare with models.jsonl.gz, of few tokens, and with what other seeds print at the time.
"""

import io
import json
import sys

import sentencepiece
from record_goldens import SENTENCES, TOKENS, Random, answer, bert, tokenizer, unambiguous
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace("{1,3}", "")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BYTES = ["<0x%02X>" % b for b in range(256)]


def sequence(key, parts):
    return {"type": "Sequence", key: parts}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def charsmap(rule):
    """The charsmap of a normalization of SentencePiece's, such as nmt_nfkc, in base64: out of a model that is trained with it."""
    import base64

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=out, vocab_size=400, hard_vocab_limit=False,
        normalization_rule_name=rule, minloglevel=2)
    spec = field(out.getvalue(), 3)  # ModelProto.normalizer_spec
    return base64.b64encode(field(spec, 2)).decode()  # NormalizerSpec.precompiled_charsmap


def field(message, number):
    """The last length-delimited field of this number in a Protobuf message."""
    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            b = message[at]
            at += 1
            value |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return value
    at, found = 0, None
    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            if tag >> 3 == number:
                found = message[at:at + size]
            at += size
        elif tag & 7 == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[tag & 7]
    return found


class Maker(Random):
    charsmaps = None

    def byte_level(self, regex=True):
        return {"type": "ByteLevel", "add_prefix_space": self.flag(), "trim_offsets": True, "use_regex": regex}

    def trim(self, kind):
        part = {"type": kind, "trim_offsets": self.flag(), "add_prefix_space": self.flag()}
        return part | ({"use_regex": True} if kind == "ByteLevel" else {"sep": ["</s>", 2], "cls": ["<s>", 0]})

    def metaspace(self):
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": self.choice(["always", "first", "never"]),
                "split": self.chance(0.8)}

    def precompiled(self):
        return {"type": "Precompiled", "precompiled_charsmap": self.choice(self.charsmaps)}

    def around(self):
        special = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}
        a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
        s, e = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 1}}
        return {"type": "TemplateProcessing", "single": [s, a, e], "pair": [s, a, e] + self.choice([[b, e], [e, b, e]]),
                "special_tokens": special}

    def bpes(self):
        """The kinds of byte-pair encoding that are in use."""
        yield {"pre_tokenizer": self.byte_level(), "post_processor": self.trim("RobertaProcessing")}, {}
        yield {"pre_tokenizer": self.byte_level(), "post_processor": self.trim("ByteLevel")}, {}
        yield {"pre_tokenizer": sequence("pretokenizers", [split(CL100K), self.byte_level(False)]),
               "post_processor": sequence("processors", [self.trim("ByteLevel"), self.around()])}, {"ignore_merges": True}
        yield {"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence("pretokenizers", [split(QWEN2), self.byte_level(False)]),
               "post_processor": self.trim("ByteLevel")}, {}
        yield {"normalizer": sequence("normalizers", [{"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"}]),
               "pre_tokenizer": sequence("pretokenizers", [split(CLIP, "Removed", True), self.byte_level(False)]),
               "post_processor": self.trim("RobertaProcessing")}, {"end_of_word_suffix": "</w>", "unk_token": "<unk>"}
        yield {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": {
            "type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}}, {
            "unk_token": "<unk>", "fuse_unk": self.flag(), "continuing_subword_prefix": self.choice(["##", None]),
            "end_of_word_suffix": self.choice(["</w>", None])}
        yield {"normalizer": sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]),
               "post_processor": self.around()}, {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
        yield {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": split(GPT2, "MergedWithNext")}, {}

    def unigrams(self):
        """The kinds of unigram models that are in use."""
        spaces = replace(" {2,}", self.choice([" ", "▁"]), "Regex")
        words = sequence("pretokenizers", [{"type": "WhitespaceSplit"}, self.metaspace()])
        for normalizer in [self.precompiled(), sequence("normalizers", [self.precompiled(), spaces]),
                           sequence("normalizers", [{"type": "Nmt"}, {"type": "NFKC"}, spaces]), None]:
            yield {"normalizer": normalizer, "pre_tokenizer": self.choice([self.metaspace(), words]),
                   "post_processor": self.choice([self.around(), None])}, {"byte_fallback": self.flag()}

    def lines(self, odd):
        lines = SENTENCES * 3 + [self.text() for _ in range(odd)]
        words = [w for s in SENTENCES for w in s.split()]
        for _ in range(500):
            lines.append(" ".join(self.choice(words) for _ in range(self.randrange(1, 12))))
        return lines

    def train(self, parts, options, size, unigram):
        config = tokenizer(**parts)
        specials = ["<s>", "<unk>", "</s>"] + (BYTES if options.get("byte_fallback") else [])
        if unigram:
            config["model"] = json.loads(Tokenizer(models.Unigram()).to_str())["model"] | options
            trainer = trainers.UnigramTrainer(vocab_size=max(size, 1500), special_tokens=specials, unk_token="<unk>", show_progress=False)
        else:
            config["model"] = json.loads(Tokenizer(models.BPE()).to_str())["model"]
            # Without a token for unknown ones every byte needs its own: the library gets the offsets behind others wrong.
            alphabet = [] if options.get("unk_token") else pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(
                vocab_size=size, special_tokens=specials, show_progress=False, initial_alphabet=alphabet,
                limit_alphabet=self.choice([260, 400]),
                continuing_subword_prefix=options.get("continuing_subword_prefix") or "",
                end_of_word_suffix=options.get("end_of_word_suffix") or "")
        t = Tokenizer.from_str(json.dumps(config | {"post_processor": None}))
        t.train_from_iterator(self.lines(0 if unigram else 500), trainer)  # unigrams need a token for every character
        trained = json.loads(t.to_str())
        config["model"] = trained["model"] | options
        first = len(config["model"]["vocab"])
        config["added_tokens"] = self.added_tokens(first) if self.flag() else []
        return config

    def texts(self):
        long = "".join(self.character() for _ in range(2000)).replace(" ", "")
        code = "func f(x int) (err error) {\n\tif x >= 10 {\r\n\t\treturn fmt.Errorf(\"%d\\n\", x)\n\n\n    }  \n}\n"
        fixed = ["", " ", "  ", "\n", "a", " a", "a ", " a  b ", "Don't we'll 'S THEY'RE x'ſ 'll", "1234567 12 ½", code, "x" * 500, "-" * 300,
                 "中" * 200, "ab" * 300, long, "<s>a</s> <unk> <0x41>", "▁a ▁▁b", "Ġa", "e\u0301" * 50, "\r\n\r\n a\r\n"]
        return fixed + [self.text() for _ in range(40)] + self.sample(SENTENCES, 20) + [
            " ".join(self.choice([self.text(), self.choice(SENTENCES)]) for _ in range(6)) for _ in range(5)]


ONLY = ["", "", "only_first", "only_second"]


def pair(t, a, b, limit, left=False, only=""):
    """The encoding of two texts, or of one where the second is None, cut at a limit where that is not 0."""
    asked = {"text": a, "pair": b, "limit": limit, "left": left, "only": only if b is not None else ""}
    if limit:
        t.enable_truncation(limit, strategy=asked["only"] or "longest_first", direction="left" if left else "right")
    try:
        e = t.encode(a, b)
    except Exception as why:
        return asked | {"short": "too short" in str(why)}
    finally:
        t.no_truncation()
    spans, offsets = {0: a, 1: b}, []
    for (start, end), s in zip(e.offsets, e.sequence_ids):
        text = spans[s or 0]
        offsets.append([len(text[:start].encode()), len(text[:end].encode())] if s is not None else [0, 0])
    return asked | {"ids": e.ids, "types": e.type_ids, "offsets": offsets}


def unless_panic(ask, *args):
    """The answer in a list, which is empty where the library panics."""
    try:
        return [ask(*args)]
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        return []


def main(seed, size):
    r = Maker(seed)
    r.charsmaps = [charsmap(rule) for rule in ["nmt_nfkc", "nmt_nfkc_cf"]]
    configs = [r.train(parts, options, size, False) for parts, options in r.bpes()]
    configs += [r.train(parts, options, size, True) for parts, options in r.unigrams()]
    for config in configs:
        if not unambiguous(config):
            config["added_tokens"] = []
        t = Tokenizer.from_str(json.dumps(config))
        texts = r.texts()
        answers = [a for x in texts for a in unless_panic(answer, t, x)]
        for _ in range(12):
            a, b = r.choice(texts)[:300], r.choice(texts)[:300]
            answers += unless_panic(pair, t, a, r.choice([b, b, None]), r.choice([0, 9, 10, 33]), r.flag(), r.choice(ONLY))
        print(json.dumps({"tokenizer": config, "texts": answers}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
