"""Writes ../tables.txt: what Hugging Face's tokenizers says about every code point, asked of the library itself.

    pip install tokenizers==0.23.3
    python record_tables.py > ../tables.txt

The library mixes tables of several Unicode versions (its normalization is Unicode 9, its categories are older, its case
mappings newer), so none of them is computed from another source. Only the canonical combining classes come from Python's
unicodedata, for the code points that the library is seen to reorder; Unicode never changes the class of a code point.
"""

import sys
import textwrap
import unicodedata

from tokenizers import Regex, __version__
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]

clean = N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False).normalize_str
accents = N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False).normalize_str
lower, nfd, nfkd, nfc = (n().normalize_str for n in (N.Lowercase, N.NFD, N.NFKD, N.NFC))
marks = N.StripAccents().normalize_str
punctuation = P.Punctuation("isolated").pre_tokenize_str
whitespace, whitespace_split = P.Whitespace().pre_tokenize_str, P.WhitespaceSplit().pre_tokenize_str
digits = P.Digits(individual_digits=True).pre_tokenize_str

SETS = {  # name: (what it is, the question)
    "control": ("removes, besides NUL and U+FFFD, as control characters: general category C, as far as it knows it",
                lambda c: clean("a" + c + "b") == "ab" and c not in "\0\ufffd"),
    "space": ("takes as whitespace", lambda c: len(whitespace_split("a" + c + "b")) == 2),
    "nonspacing": ("removes as accents, after NFD: general category Mn", lambda c: accents(c) == ""),
    "punctuation": ("takes as punctuation: general category P, and ASCII's", lambda c: len(punctuation("a" + c + "b")) == 3),
    "mark": ("removes by StripAccents: general category M", lambda c: marks("a" + c) == "a"),
    "word": ("takes as a character of words where it splits by Whitespace", lambda c: whitespace("a" + c)[0][0] == "a" + c),
    "numeric": ("takes as digits: general category N", lambda c: len(digits("a" + c)) == 2),
}


def combining_class(c):
    """The class of c if the library reorders c, else 0."""
    ccc = unicodedata.combining(c)
    if ccc > 1 and nfd("a" + c + "\u0334") == "a\u0334" + nfd(c):
        return ccc
    if ccc == 1 and nfd("a\u0345" + c) == "a" + nfd(c) + "\u0345":
        return ccc
    return 0


def runs(values):
    """[(first, last, value)] for the values {code point: value}, adjacent equal ones joined."""
    out = []
    for c in sorted(values):
        if out and out[-1][1] == c - 1 and out[-1][2] == values[c]:
            out[-1][1] = c
        else:
            out.append([c, c, values[c]])
    return out


# What regular expressions of tokenizer.json tell apart: general categories, classes of POSIX and those without a name, and scripts.
KINDS = {c: r"\p{%s}" % c for c in (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn "
    "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari").split()}
KINDS |= {"alpha": "[[:alpha:]]", "upper": "[[:upper:]]", "lower": "[[:lower:]]", "space": r"\s", "word": r"\w", "wordclass": r"[\w]"}


def kinds():
    """{kind: {code point: True}}: a kind is what KINDS says of its code points."""
    names, everything = {c: [] for c in CODE_POINTS}, "".join(map(chr, CODE_POINTS))
    for name, regex in KINDS.items():
        for _, (a, b) in P.Split(Regex("(?:%s)+" % regex), "removed", invert=True).pre_tokenize_str(everything):
            for c in CODE_POINTS[a:b]:
                names[c].append(name.lower())
    found = {}
    for c, n in names.items():
        found.setdefault(" ".join(n), {})[c] = True
    return found


def folds():
    """{code point: what becomes of it without case}, where that is another: full case folding, as far as regular expressions know it."""
    find = lambda regex, where: [w for w, _ in P.Split(Regex("(?i)" + regex), "removed", invert=True).pre_tokenize_str(where)]
    forms = lambda c: {c, lower(c), c.lower(), c.upper(), c.title(), c.casefold()}
    cased = {ord(w) for c in CODE_POINTS if len(forms(chr(c))) > 1 for w in forms(chr(c)) if len(w) == 1}
    others = "[%s]" % "".join("%s-%s" % (esc(a), esc(b)) for a, b, _ in runs({c: True for c in CODE_POINTS if c not in cased}))
    cased = sorted(cased)
    assert not find(others, "".join(map(chr, cased))), "a character that has a case and none of its forms"
    text, found = "\n".join(map(chr, cased)), {}
    for c in cased:
        full = chr(c).casefold()
        if len(full) > 1:
            assert find(esc(c), full) == [full], "%x does not stand for %r" % (c, full)
            found[c] = full
        else:  # Python may be older: then the last is what becomes of both, since small letters came later
            same = [w for w in find(esc(c), text) if len(w) == 1]
            found[c] = next((w.casefold() for w in same if w.casefold() != w), max(same))
    return {c: f for c, f in found.items() if f != chr(c)}


def esc(c):
    return "\\x{%x}" % c


def scripts():
    """{code point: the number of its script}, where it has one that UnicodeScripts splits by."""
    f = P.UnicodeScripts().pre_tokenize_str
    alone = [c for c in CODE_POINTS if len(f("a" + chr(c))) > 1 or len(f("\u044f" + chr(c))) > 1]
    found, firsts = {}, []
    for word, (a, b) in f("".join(map(chr, alone))):
        number = next((i for i, first in enumerate(firsts) if len(f(first + word[0])) == 1), len(firsts))
        if number == len(firsts):
            firsts.append(word[0])
        found |= dict.fromkeys(alone[a:b], number)
    return found


def hexes(s):
    return ".".join("%x" % ord(c) for c in s)


def span(first, last):
    return "%x" % first if first == last else "%x-%x" % (first, last)


def section(name, doc, entries):
    print("\n[%s] %s" % (name, doc))
    print("\n".join(textwrap.wrap(" ".join(entries), 118, break_long_words=False, break_on_hyphens=False)))


def mapping(pairs):
    return ["%x=%s" % (c, hexes(s)) for c, s in sorted(pairs.items())]


def hangul(c):
    return 0xAC00 <= c <= 0xD7A3


def main():
    print("# Written by testdata/record_tables.py from tokenizers %s: do not edit. Code points are in hex; a-b is a range, a.b one\n"
          "# behind the other, and behind = stands what becomes of them." % __version__)
    for name, (doc, holds) in SETS.items():
        found = {c: True for c in CODE_POINTS if holds(chr(c))}
        section(name, "what the original %s" % doc, [span(a, b) for a, b, _ in runs(found)])

    print("\n# What the original's regular expressions tell apart: the names of a kind, and its code points.")
    for names, found in kinds().items():
        section("kind", names, [span(a, b) for a, b, _ in runs(found)])

    classes = {c: combining_class(chr(c)) for c in CODE_POINTS}
    classes = {c: k for c, k in classes.items() if k}
    section("classes", "the canonical combining classes that are not 0", ["%s=%x" % (span(a, b), k) for a, b, k in runs(classes)])

    section("lower", "the lowercases", mapping({c: lower(chr(c)) for c in CODE_POINTS if lower(chr(c)) != chr(c)}))
    canonical = {c: nfd(chr(c)) for c in CODE_POINTS if not hangul(c) and nfd(chr(c)) != chr(c)}
    section("canonical", "the full canonical decompositions but for Hangul", mapping(canonical))
    compatible = {c: nfkd(chr(c)) for c in CODE_POINTS if not hangul(c) and nfkd(chr(c)) != nfd(chr(c))}
    section("compatible", "the full compatibility decompositions that are not the canonical ones", mapping(compatible))

    section("fold", "what becomes of a character where regular expressions take no notice of case", mapping(folds()))
    section("scripts", "the scripts by which it splits, numbered", ["%s=%x" % (span(a, b), n) for a, b, n in runs(scripts())])

    composed = []
    for c, s in sorted(canonical.items()):
        a, b = nfc(s[:-1]), s[-1]
        if len(a) == 1 and nfc(s) == chr(c) and nfc(a + b) == chr(c):
            composed.append("%s=%x" % (hexes(a + b), c))
    section("compositions", "the pairs that NFC composes, but for Hangul", composed)


if __name__ == "__main__":
    sys.exit(main())
