"""Writes codepoints.jsonl and random.jsonl.gz: what Hugging Face's tokenizers answers, for the tests to compare with.

    pip install tokenizers==0.23.3
    python record_goldens.py [seed]

codepoints.jsonl has a line for each part of a tokenizer.json, with a hash for each block of 4096 code points: of what the
part makes of "a" + c + "b" for every code point c of the block, surrogates aside, each followed by a newline; the words of a
pre-tokenizer are joined by U+0000, the ids of a tokenizer by commas.

random.jsonl.gz has a line for each random tokenizer.json, with random texts and sentences of many languages and what they
become: ids, type ids, and offsets in bytes. Another seed gives another file, to look for differences that no test knows yet.
"""

import gzip
import hashlib
import json
import random
import sys
import unicodedata

from tokenizers import Tokenizer

MINILM = "minilm/tokenizer.json"
BLOCK = 4096


def tokenizer(**parts):
    """A tokenizer.json with these parts."""
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model} | parts


def bert(clean, chinese, accents, lower):
    return {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": accents,
            "lowercase": lower}


NORMALIZERS = [bert(True, True, None, True), bert(True, True, None, False), bert(False, False, True, False),
               bert(False, True, False, True)] + [
    {"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")] + [
    {"type": "Strip", "strip_left": True, "strip_right": True}]
PRE_TOKENIZERS = [{"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
                  {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]


def code_points():
    for part in NORMALIZERS:
        t = Tokenizer.from_str(json.dumps(tokenizer(normalizer=part)))
        yield {"normalizer": part}, t.normalizer.normalize_str
    for part in PRE_TOKENIZERS:
        t = Tokenizer.from_str(json.dumps(tokenizer(pre_tokenizer=part)))
        yield {"pre_tokenizer": part}, lambda s, t=t: "\0".join(w for w, _ in t.pre_tokenizer.pre_tokenize_str(s))
    minilm = load(MINILM)
    yield {"tokenizer": MINILM}, lambda s: ",".join(map(str, minilm.encode(s).ids))


def load(path):
    t = Tokenizer.from_file(path)
    t.no_padding()
    t.no_truncation()
    return t


def record_code_points():
    with open("codepoints.jsonl", "w") as out:
        for part, answer in code_points():
            blocks = []
            for first in range(0, 0x110000, BLOCK):
                h = hashlib.sha256()
                for c in range(first, first + BLOCK):
                    if not 0xD800 <= c <= 0xDFFF:
                        h.update((answer("a" + chr(c) + "b") + "\n").encode())
                blocks.append(h.hexdigest()[:8])
            out.write(json.dumps(part | {"blocks": blocks}) + "\n")


SENTENCES = [
    "The red shoes cost $49.99, aren't they cheap?", "Die Straße in Köln hat 25 Bäume; „schön“!", "Où est l'élève, à Noël?",
    "El niño comió jalapeños; ¿cuánto cuesta?", "Não há manhãs, só corações.", "Perché città è più bella?",
    "Zażółć gęślą jaźń.", "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Árvíztűrő tükörfúrógép.", "İstanbul'da ILIK çay içtim.",
    "Tiếng Việt có nhiều dấu: ễ ữ ợ ậ.", "Съешь ещё этих мягких французских булок.", "Їжак і ґанок — це файно.",
    "Ο ΟΔΥΣΣΕΥΣ και ο σοφός.", "שָׁלוֹם עֲלֵיכֶם, מה שלומך?", "السَّلَامُ عَلَيْكُمْ يا أصدقاء", "سلام، حال شما چطور است؟",
    "नमस्ते दुनिया, आप कैसे हैं?", "வணக்கம் உலகம்", "สวัสดีชาวโลก ๑๒๓", "안녕하세요 세계, 오늘은 좋은 날입니다.",
    "こんにちは世界、ガギグゲゴ㌔。", "你好，世界！這是第二句。", "ሰላም ለዓለም።", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ։", "ᚠᛇᚻ ᛒᛦᚦ",
    "👩‍👩‍👧‍👦 family 🇩🇪 👍🏽", "func main() { fmt.Println(\"a_b\", x[0]+1<<2) }", "https://example.com/a?b=c&d=%20#e",
    "SELECT * FROM t WHERE x >= 3.5e-7;", "ﬁne ﬂow ½ ² ℃ Ⅷ ①", "e\u0301 e\u0323\u0302 a\u0302\u0323 \u0344", "\u1100\u1161\u11a8 \uac00\u11a8",
    "x" * 99, "x" * 100, "x" * 101, "é" * 60, "e\u0301" * 60, "中" * 30, "-" * 30,
]
TOKENS = ["[CLS]", "Foo", "foo", "<x>", " ", "  ", "é", "e\u0301", "E\u0301", "hello", "中", "##a", "a b", " a", "a ",
          "\u00a0", "ab", "abc", "b", "İ", "-", "[UNK]", "xyz", "ﬁ", "ΑΣ", "한", "각", "\n", "."]
EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
COMBINING = [c for c in EVERY if unicodedata.combining(chr(c))]
DECOMPOSING = [c for c in EVERY if unicodedata.decomposition(chr(c))]
CASED = [c for c in EVERY if chr(c).lower() != chr(c)]
ODD = [0, 1, 9, 10, 11, 13, 0x1C, 0x7F, 0x85, 0xA0, 0xAD, 0x130, 0xDF, 0x3A3, 0x345, 0x200B, 0x200D, 0x2028, 0x202E, 0x3000,
       0xFEFF, 0xFFFD, 0xFFFE, 0x1D165, 0x1D16D, 0x302E, 0x16FF0, 0x2B820, 0x10FFFF, 0xE000, 0x180E, 0x0F73, 0x0F81, 0x344,
       0x9F, 0x2581, 0x1E9E, 0xFDFA]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


class Random(random.Random):
    def chance(self, p):
        return self.random() < p

    def flag(self):
        return self.chance(0.5)

    def character(self):
        return self.choice([
            lambda: chr(self.randrange(97, 107)), lambda: chr(self.randrange(97, 107)), lambda: chr(self.randrange(97, 107)),
            lambda: chr(self.randrange(32, 127)), lambda: self.choice("   \t\n\u00a0\u3000"),
            lambda: chr(self.choice(COMBINING)), lambda: chr(self.choice(DECOMPOSING)), lambda: chr(self.choice(CASED)),
            lambda: chr(self.choice(ODD)), lambda: chr(self.randrange(0xAC00, 0xD7A4)),
            lambda: chr(self.randrange(0x1100, 0x1200)), lambda: chr(self.randrange(0x4E00, 0x4E10)),
            lambda: chr(self.choice(EVERY)), lambda: self.choice(TOKENS)])()

    def text(self):
        return "".join(self.character() for _ in range(self.choice([0, 1, 2, 3, 5, 8, 13, 40])))

    def normalizer(self, depth=0):
        kinds = [lambda: bert(self.flag(), self.flag(), self.choice([None, True, False]), self.flag())] * 4 + [
            lambda: {"type": self.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"])},
            lambda: {"type": self.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"])},
            lambda: {"type": "Strip", "strip_left": self.flag(), "strip_right": self.flag()},
            lambda: {"type": "Prepend", "prepend": self.choice(["x", "▁", "é ", "ab"])},
            lambda: {"type": "Replace", "pattern": {"String": self.choice(TOKENS + ["a", "aa", "\\", "#"])},
                     "content": self.choice(["", "x", " ", "éa", "bb"])}]
        if depth < 3:
            kinds += [lambda: {"type": "Sequence", "normalizers": [self.normalizer(depth + 1) for _ in range(self.randrange(4))]}] * 2
        return self.choice(kinds)()

    def pre_tokenizer(self, depth=0):
        kinds = [lambda: {"type": "BertPreTokenizer"}] * 3 + [
            lambda: {"type": "Whitespace"}, lambda: {"type": "WhitespaceSplit"},
            lambda: {"type": "Punctuation", "behavior": self.choice(BEHAVIORS)},
            lambda: {"type": "Digits", "individual_digits": self.flag()},
            lambda: {"type": "CharDelimiterSplit", "delimiter": self.choice("a-é ")},
            lambda: {"type": "Split", "pattern": {"String": self.choice(TOKENS + ["a"])}, "behavior": self.choice(BEHAVIORS),
                     "invert": self.flag()}]
        if depth < 3:
            kinds += [lambda: {"type": "Sequence", "pretokenizers": [self.pre_tokenizer(depth + 1) for _ in range(self.randrange(4))]}] * 2
        return self.choice(kinds)()

    def model(self):
        prefix = self.choice(["##", "##", "##", "", "@@"])
        tokens = ["[UNK]"] if self.chance(0.9) else []
        for _ in range(self.choice([30, 200])):
            token = "".join(self.character() for _ in range(self.choice([1, 1, 1, 2, 2, 3])))
            tokens.append(self.choice(["", prefix]) + unicodedata.normalize(self.choice(["NFC", "NFD"]), token))
        for c in "abcdefghij0123-. éABC中[]":
            tokens += [c, prefix + c]
        vocabulary = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
        return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix,
                "max_input_chars_per_word": self.choice([100, 100, 100, 5, 1, 0]), "vocab": vocabulary}

    def post_processor(self):
        special = {"X": {"id": "X", "ids": [7, 8], "tokens": ["a", "b"]}, "Y": {"id": "Y", "ids": [9], "tokens": ["Y"]}}
        text, pair = {"Sequence": {"id": "A", "type_id": 3}}, {"Sequence": {"id": "B", "type_id": 1}}
        x, y = {"SpecialToken": {"id": "X", "type_id": 1}}, {"SpecialToken": {"id": "Y", "type_id": 2}}
        single = self.choice([[text], [x, text, y], [x, text, y, text], [text, y]])
        return self.choice([
            None, {"type": "BertProcessing", "sep": ["[SEP]", self.randrange(200)], "cls": ["[CLS]", self.randrange(200)]},
            {"type": "TemplateProcessing", "single": single, "pair": [x, text, pair], "special_tokens": special},
            {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": self.flag(),
             "add_prefix_space": self.flag()}])

    def added_tokens(self, first):
        contents = self.sample(TOKENS, self.choice([0, 0, 1, 3, 6]))
        return [{"id": first + i, "content": c, "single_word": self.chance(0.3), "lstrip": self.chance(0.4),
                 "rstrip": self.chance(0.4), "normalized": self.flag(), "special": self.flag()} for i, c in enumerate(contents)]

    def tokenizer(self):
        model, post_processor = self.model(), self.post_processor()
        pre_tokenizer = None if self.chance(0.1) else self.pre_tokenizer()
        if post_processor and post_processor.get("trim_offsets"):  # what else is not supported
            pre_tokenizer = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}]}
        return tokenizer(added_tokens=self.added_tokens(len(model["vocab"])), post_processor=post_processor, model=model,
                         normalizer=None if self.chance(0.1) else self.normalizer(), pre_tokenizer=pre_tokenizer)


def answer(t, text):
    """The encoding of a text, or the text alone where the library has an error."""
    try:
        e = t.encode(text)
    except Exception:
        return {"text": text}
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return {"text": text, "ids": e.ids, "types": e.type_ids, "offsets": [[at[a], at[b]] for a, b in e.offsets]}


def unambiguous(config):
    """Whether no two added tokens, nor an empty one, are searched for after normalization: the library chooses by chance."""
    t = Tokenizer.from_str(json.dumps(config))
    normalize = t.normalizer.normalize_str if t.normalizer else str
    patterns = [normalize(a["content"]) for a in config["added_tokens"] if a["normalized"]]
    return "" not in patterns and len(set(patterns)) == len(patterns)


def record_random(seed):
    r = Random(seed)
    with gzip.GzipFile("random.jsonl.gz", "wb", mtime=0) as out:
        def line(config, texts):
            t = Tokenizer.from_str(json.dumps(config))
            t.no_padding()
            t.no_truncation()
            out.write((json.dumps({"tokenizer": config, "texts": [answer(t, x) for x in texts]}) + "\n").encode())

        found = 0
        while found < 150:
            config = r.tokenizer()
            if unambiguous(config):
                line(config, [r.text() for _ in range(20)] + r.sample(SENTENCES, 3))
                found += 1
    minilm = load(MINILM)
    with open("minilm/sentences.jsonl", "w") as out:
        for text in SENTENCES + [r.text() for _ in range(300)]:
            out.write(json.dumps(answer(minilm, text)) + "\n")


if __name__ == "__main__":
    record_code_points()
    record_random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
