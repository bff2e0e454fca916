"""Prints what Hugging Face's tokenizers, whose library for regular expressions is Oniguruma, finds by random expressions and by those of models.

    pip install tokenizers==0.23.3 sentencepiece==0.2.1
    python record_expressions.py SEED EXPRESSIONS > expressions.jsonl

A line is as in record_models.py: a tokenizer.json that splits by an expression, whose tokens are all unknown, and texts.
"""

import json
import sys

from record_goldens import BEHAVIORS, SENTENCES, answer, tokenizer
from record_models import split
from record_parts import Maker
from tokenizers import Regex, Tokenizer

CAPITAL, SMALL = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = r"[^\r\n\p{L}\p{N}]?[%s]*[%s]+%s|[^\r\n\p{L}\p{N}]?[%s]+[%s]*%s|\p{N}{1,3}|" % (CAPITAL, SMALL, ENDINGS, CAPITAL, SMALL, ENDINGS) + REST
FAMILIES = [
    O200K, O200K.replace(ENDINGS, "").replace("{1,3}", ""),  # Mistral
    r"[\p{Han}]+|" + O200K.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]"),  # Kimi
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",  # tiktoken
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",  # Qwen 3.5
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "[一-龥\u3040-ゟ゠-ヿ]+", " ?[^(\\s|[.,!?…。，、।۔،])]+", "[0-9][0-9][0-9]", r"\d", r"(?=(\d{3})+(?!\d))", r"\d{1,3}(?=(?:\d{3})*\b)",
    "(?<=[a-z])(?=[A-Z])", r"\s+$", r"^\s+|\s+$", r"(?<=\s)|(?=\s)"]
ATOMS = list("abcdef'- x12") + [r"\d", r"\h", r"\n", r"\r", r"\t", r"\.", r"\'", r"\x41"]
WIDE = [r"\s", r"\S", r"\D", r"\w", r"\W", ".", r"\u00e9", r"\x{4e2d}", "é", "中", "ſ", "한"]
PROPERTIES = ("L Lu Ll Lt Lm Lo M Mn N Nd Nl No P Po Ps S Sm Sc So Z Zs C Cc Cf Han Latin Hiragana Greek Cyrillic Alpha Alnum Punct Upper "
              "Lower Space Digit Letter Number").split()
RANGES = ["a-f", "0-9", "A-Z", "a", "b", " ", "\\n", "\\r", "\\-", "'", "_", "\\]", "\\["]
CLASSES = ["é-ü", "一-龥", r"\s", r"\S", r"\p{L}", r"\p{N}", r"\P{L}", r"\p{M}", r"\w", r"\d", r"\p{Lu}", r"\p{Han}", "[:alpha:]", "[:^space:]",
           "[:punct:]"]
BEHIND = ["a", "[ab]", r"\s", r"\p{L}", "ab|cd", r"a\s"]
CASES = list("sstffiijkKSTßẞſﬀﬁﬃﬆéÉåÅσςΣΩωŉʼnǰɐⱯаАꙋᲈ\u0345ιΐΐ\u0308\u0301\u030cᾳ\u0307İıⅣⓐ") + [r"\x73", r"\u00df", r"\x{1e9e}"]
CASED_CLASSES = ["[k-t]", "[é-ü]", "[ß]", "[^ß]", "[ﬀﬃ]", "[^s]", r"[\p{Lu}ab]", r"[^\p{Ll}]", "[а-я]", "[Α-Ω]", "[[:upper:]]", r"[a[^\p{L}]]", "[^[^k]s]", "[A-z&&S]",
                 r"\p{Lu}", r"\p{Ll}", r"\P{L}", r"\s", r"\w", "[ǄᲀⱯ]"]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z"]
REPEATS = ["+", "+?", "++", "{2}", "{1,3}", "{2,}", "{1,2}?", "{2}+", "{1,3}+"]
OPTIONS = ["*", "?", "*?", "??", "*+", "?+", "{,2}"]


class Expressions(Maker):
    """Every method answers an expression and whether it may match nothing."""

    def atom(self, depth, fold):
        kinds = [lambda: (self.choice(ATOMS), False)] * 7 + [lambda: (self.members(0, fold), False)] * 4
        if fold:
            kinds += [lambda: (self.choice(CASES), False)] * 9 + [lambda: (self.choice(CASED_CLASSES), False)]
        else:
            kinds += [lambda: (self.choice(WIDE), False)] * 2 + [lambda: (self.property(), False)] * 3
        if depth < 2:  # deeper ones show faults of the library, about one in 10,000
            kinds += [lambda: self.group(self.choice(["(?:", "(", "(?>"]), depth, fold)] * 2 + [lambda: self.group("(?i:", depth, True)] * (4 if fold else 1) + [
                lambda: (self.group(self.choice(["(?=", "(?!"]), depth, fold)[0], True),
                lambda: (self.choice(["(?<=", "(?<!"]) + self.choice(BEHIND[:2] + ["k", "[s-z]", "s", "é", "σ"] if fold else BEHIND) + ")", True),
                lambda: (self.choice(PLACES), True)]
        return self.choice(kinds)()

    def group(self, sign, depth, fold):
        e, empty = self.alternatives(depth + 1, fold)
        return sign + e + ")", empty

    def property(self):
        return self.choice([r"\p", r"\P"]) + "{" + self.choice(["", "", "^"]) + self.choice(PROPERTIES) + "}"

    def members(self, depth, fold):
        choices = RANGES + CASES if fold else RANGES + CLASSES
        both = not fold and depth == 0 and self.chance(0.15)  # an intersection, whose parts have no classes in classes
        more = lambda: self.members(2 if both else depth + 1, fold) if depth < 2 and not fold else "x"
        e = "".join(self.choice([lambda: self.choice(choices)] * 3 + [more])() for _ in range(self.choice([1, 1, 2, 3])))
        if both:
            e += "&&" + self.choice([more, lambda: self.choice(["a-z", r"[^\p{Han}]", r"\p{L}"])])()
        return "[" + self.choice(["", "", "" if both else "^"]) + e + "]"

    def repeated(self, depth, fold):
        e, empty = self.atom(depth, fold)
        if empty or e == "." or self.chance(0.5):  # the library takes any character many times for the beginning of a line, behind a look ahead too
            return e, empty
        return self.choice([(e + self.choice(REPEATS), False), (e + self.choice(OPTIONS), True)])

    def alternatives(self, depth=0, fold=False):
        all = [[self.repeated(depth, fold) for _ in range(self.choice([1, 1, 2, 3]))] for _ in range(self.choice([1, 1, 2, 3]))]
        return "|".join("".join(e for e, _ in s) for s in all), any(all_empty(s) for s in all)

    def characters(self):
        return "".join(self.choice("abcdef'- x12 \n\r\tABé中한ſ") for _ in range(30)) + "".join(self.choice(CASES[:-3]) for _ in range(20))


def all_empty(sequence):
    return all(empty for _, empty in sequence)


def main(seed, count):
    r, made = Expressions(seed), 0
    expressions = list(FAMILIES)
    while made < count:
        e = expressions.pop() if expressions else r.alternatives()[0]
        behavior = ("Removed", True) if made % 2 else (r.choice(BEHAVIORS), r.flag())
        texts = [r.text() for _ in range(4)] + [r.characters() for _ in range(4)] + r.sample(SENTENCES, 2) + [
            "Don't STOP, HeLLo'S it's 1234567 foo_bar(x) /\r\n\n  fooBar  ", "漢字かなカナ한글 Ελληνικά Ünïcode 1,234.5 ½x²\n"]
        try:
            Regex(e)
            config = tokenizer(pre_tokenizer=split(e, *behavior))
            answers = [answer(Tokenizer.from_str(json.dumps(config)), x) for x in texts]
        except BaseException:  # the library's own limits
            continue
        made += 1
        print(json.dumps({"tokenizer": config, "texts": answers}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
