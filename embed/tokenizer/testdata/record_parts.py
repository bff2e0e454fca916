"""Prints what Hugging Face's tokenizers answers for random files of every kind of model, with random parts of every kind around it.

    pip install tokenizers==0.23.3 sentencepiece==0.2.1
    python record_parts.py SEED FILES > parts.jsonl

Vocabularies, scores and merges are random too, so that they have what training does not make: merges out of order, unknown tokens
that are missing, prefixes that are characters of texts. A line is as in record_models.py. Where the library may only get the
offsets wrong, those of a BPE model behind a character that vanished, there are none.
"""

import json
import sys

from record_goldens import BEHAVIORS, SENTENCES, TOKENS, Random, answer, tokenizer, unambiguous
from record_models import BYTES, CL100K, CLIP, GPT2, ONLY, QWEN2, pair, replace, sequence, split
from tokenizers import Tokenizer, pre_tokenizers

CHARACTERS = list("abcdefgh12-.x \n") + ["é", "中", "한", "▁", "Ġ", "\u0301", "'s", "ß", "İ"]
EXPRESSIONS = [r"\s+", r"\s", " +", " {2,}", r"\n", r"[\r\n]", r"[\n\r\t]", r"\s{2,}|[\n\r\t]", r"\p{N}", r"\p{N}{1,3}"]
WORDS = [GPT2, CL100K, QWEN2, CLIP, r"<\|startoftext\|>|<\|endoftext\|>|" + CLIP]


class Maker(Random):
    def normalizer(self, depth=0):
        kinds = [lambda: super(Maker, self).normalizer(3)] * 5 + [
            lambda: replace(self.choice(EXPRESSIONS), self.choice([" ", "▁", "", "_a"]), "Regex"), lambda: replace(" ", "▁"),
            lambda: {"type": "Prepend", "prepend": "▁"}, lambda: {"type": "ByteLevel"}]
        if depth < 3:
            kinds += [lambda: sequence("normalizers", [self.normalizer(depth + 1) for _ in range(self.randrange(5))])] * 4
        return self.choice(kinds)()

    def metaspace(self):
        m = {"type": "Metaspace", "replacement": self.choice("▁▁_a")}
        return m | self.choice([{"prepend_scheme": self.choice(["always", "first", "never"]), "split": self.flag()},
                                {"add_prefix_space": True, "prepend_scheme": self.choice(["always", "first"])},
                                {"add_prefix_space": self.flag()}])

    def pre_tokenizer(self, depth=0):
        kinds = [lambda: super(Maker, self).pre_tokenizer(3)] * 4 + [self.metaspace] * 2 + [
            lambda: {"type": "ByteLevel", "add_prefix_space": self.flag(), "trim_offsets": self.flag(), "use_regex": self.flag()},
            lambda: {"type": "Punctuation"}, lambda: {"type": "UnicodeScripts"}, lambda: {"type": "FixedLength", "length": self.choice([1, 2, 5, 40])},
            lambda: split(self.choice(EXPRESSIONS + WORDS), self.choice(BEHAVIORS), self.flag())]
        if depth < 3:
            kinds += [lambda: sequence("pretokenizers", [self.pre_tokenizer(depth + 1) for _ in range(self.randrange(4))])] * 3
        return self.choice(kinds)()

    def tokens(self, n):
        made = ["".join(self.choice([self.choice(CHARACTERS), self.character()]) for _ in range(self.choice([1, 1, 2, 2, 3, 4])))
                for _ in range(n)]
        return list(dict.fromkeys(CHARACTERS + made))

    def unigram(self):
        tokens, fallback = self.tokens(self.choice([20, 150])), self.chance(0.3)
        self.shuffle(tokens)
        if fallback:
            tokens = BYTES + tokens if self.flag() else tokens + BYTES
        scored = [[t, self.choice([-10 * self.random(), -float(self.randrange(5)), round(-10 * self.random(), 2)])] for t in tokens]
        unknown = self.choice([None, self.randrange(len(scored))])
        if self.chance(0.8):
            unknown = self.randrange(len(scored))
            scored.insert(unknown, ["<unk>", 0.0])
        return {"type": "Unigram", "unk_id": unknown, "vocab": scored, "byte_fallback": fallback}

    def bpe(self):
        fallback = self.chance(0.3)
        prefix = self.choice(["", None] if fallback else ["", "", "", None, "##", "@"])
        suffix = self.choice(["", None] if fallback else ["", "", None, "</w>", "a"])
        p, s = prefix or "", suffix or ""
        vocabulary = dict.fromkeys(["<unk>"] if self.chance(0.8) else [])
        for c in CHARACTERS + [self.character() for _ in range(20)]:
            vocabulary |= dict.fromkeys([c, p + c, c + s, p + c + s])
        vocabulary |= dict.fromkeys(BYTES if fallback else [])
        vocabulary |= dict.fromkeys(pre_tokenizers.ByteLevel.alphabet() if self.chance(0.4) else [])
        tokens, merges = list(vocabulary), {}
        for _ in range(self.choice([0, 20, 200, 400])):
            left, right = (self.choice(self.choice([tokens, tokens[-60:]])) for _ in range(2))
            joined = left + right[len(p):]
            if right.startswith(p) and " " not in left + right and len(joined) <= 12:
                merges[left, right] = None
                if joined not in vocabulary:
                    vocabulary[joined] = None
                    tokens.append(joined)
        merges = [list(m) for m in merges]
        for order in (tokens, merges):
            if self.flag():
                self.shuffle(order)
        return {"type": "BPE", "dropout": self.choice([None, 0.0]), "unk_token": self.choice(["<unk>", "<unk>", None]),
                "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "fuse_unk": self.flag(),
                "byte_fallback": fallback, "ignore_merges": self.flag(), "vocab": {t: i for i, t in enumerate(tokens)},
                "merges": [" ".join(m) for m in merges] if self.flag() else merges}

    def word_level(self):
        tokens = ["<unk>"] * self.chance(0.8) + self.tokens(200) + [w for s in SENTENCES for w in s.split()]
        return {"type": "WordLevel", "unk_token": "<unk>", "vocab": {t: i for i, t in enumerate(dict.fromkeys(tokens))}}

    def template(self):
        specials = {"X": {"id": "X", "ids": [7, 8], "tokens": ["a", "b"]}, "Y": {"id": "Y", "ids": [9], "tokens": ["Y"]}}
        a, b = ({"Sequence": {"id": s, "type_id": self.randrange(3)}} for s in "AB")
        x, y = ({"SpecialToken": {"id": s, "type_id": self.randrange(3)}} for s in "XY")
        return {"type": "TemplateProcessing", "single": self.choice([[a], [x, a, y], [a, y], [x, x, a]]),
                "pair": self.choice([[x, a, b], [a, b], [x, a, y, b, y], [b, y, a], [x, a, y, y, b, x]]), "special_tokens": specials}

    def around(self, kind):
        part = {"type": kind, "sep": ["</s>", self.randrange(200)], "cls": ["<s>", self.randrange(200)]}
        return part | ({"trim_offsets": False, "add_prefix_space": self.flag()} if kind == "RobertaProcessing" else {})

    def byte_level(self):
        return {"type": "ByteLevel", "add_prefix_space": self.flag(), "trim_offsets": False, "use_regex": self.flag()}

    def post_processor(self):
        return self.choice([
            lambda: None, self.template, lambda: self.around("BertProcessing"), lambda: self.around("RobertaProcessing"),
            self.byte_level, lambda: sequence("processors", [self.byte_level(), self.choice([self.template, self.byte_level])()])])()

    def file(self):
        model = self.choice([self.model, self.bpe, self.bpe, self.bpe, self.unigram, self.unigram, self.word_level])()
        return tokenizer(
            model=model, added_tokens=self.added_tokens(len(model["vocab"])), post_processor=self.post_processor(),
            normalizer=None if self.chance(0.15) else self.normalizer(),
            pre_tokenizer=None if self.chance(0.15) else self.pre_tokenizer())

    def texts(self):
        return [self.text() for _ in range(14)] + self.sample(SENTENCES, 4) + [
            " ".join(self.choice(SENTENCES + ["abab aab", "<|startoftext|>"]) for _ in range(3)),
            "".join(self.choice(CHARACTERS) for _ in range(80))]


def main(seed, files):
    r = Maker(seed)
    for _ in range(files):
        config, texts = r.file(), r.texts()
        pairs = [(r.choice(texts)[:200], r.choice([r.choice(texts)[:200], None]), r.choice([0, 9, 10, 33]), r.flag(), r.choice(ONLY)) for _ in range(6)]
        try:
            if not unambiguous(config):
                config["added_tokens"] = []
            t = Tokenizer.from_str(json.dumps(config))
            answers = [answer(t, x) for x in texts] + [pair(t, *p) for p in pairs]
        except BaseException:  # a file that it refuses (add_prefix_space against prepend_scheme), or a panic of its own
            continue
        if config["model"]["type"] == "BPE" and not config["model"]["unk_token"]:
            for a in answers:
                a.pop("offsets", None)
        print(json.dumps({"tokenizer": config, "texts": answers}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
