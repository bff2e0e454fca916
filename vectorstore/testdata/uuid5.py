"""Writes uuid5_more.json: ids of random keys as Python 3.11 makes them. With a seed, prints others, by Weaviate's own generate_uuid5.

That is str(uuid.uuid5(uuid.NAMESPACE_DNS, str(identifier))).
"""
import json
import random
import struct
import sys
import unicodedata
import uuid

fresh = len(sys.argv) > 1
known = unicodedata.unidata_version == "14.0.0"  # another one prints other letters
rng = random.Random(sys.argv[1] if fresh else 20240229)
if fresh:
    from weaviate.util import generate_uuid5
else:
    assert sys.version_info[:2] == (3, 11) and known

    def generate_uuid5(key):
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, str(key)))

alphabets = ["ab'\"\\ \t\n\r\x00\x1f\x7f", "éß\xa0\xad\u0378\u200b\u2028\ue000\ufeff\ufffd", "日本😀\U0001fae8\U000e0001\U0010ffff"]
if fresh:
    last = 0x110000 if known else 0x100
    alphabets = [a for a in alphabets if known or a != alphabets[2]]
    alphabets.append("".join(chr(c) for c in range(last) if not 0xD800 <= c < 0xE000))


def text():
    return "".join(rng.choice(rng.choice(alphabets)) for _ in range(rng.randrange(12)))


def number():
    kind = rng.randrange(4)
    if kind == 0:
        return struct.unpack("<d", rng.randbytes(8))[0]
    if kind == 1:
        return rng.uniform(-1, 1) * 10 ** rng.randrange(-8, 20)
    if kind == 2:
        return float(rng.choice([-1, 1]) * 10 ** rng.randrange(0, 24)) * rng.choice([1, 0.5, 0.1])
    return rng.choice([1.0, -0.0, 0.0, 1e16, 9999999999999998.0, 1e-4, 9.999e-05, 5e-324, 1.7976931348623157e308])


def value():
    kind = rng.randrange(8)
    if kind < 3:
        return "text", text()
    if kind < 5:
        f = number()
        return "float", f
    if kind == 5:
        return "int", rng.choice([1, -1]) * rng.randrange(10 ** rng.randrange(1, 40))
    if kind == 6:
        return "bool", rng.random() < 0.5
    return "null", None


cases = []
for i in range(400):
    key = {}
    columns = []
    for _ in range(rng.randrange(1, 4)):
        name, (kind, v) = text() + str(len(key)), value()
        key[name] = v
        if kind == "float":  # by its bits, since JSON has no NaN
            columns.append([name, kind, struct.pack(">d", v).hex()])
        else:
            columns.append([name, kind, str(v) if kind == "int" else v])
    cases.append({"columns": columns, "uuid": generate_uuid5(key)})
for f in [float("nan"), float("inf"), float("-inf")]:
    cases.append({"columns": [["x", "float", struct.pack(">d", f).hex()]], "uuid": generate_uuid5({"x": f})})
big = 10**4300 - 1
cases.append({"columns": [["x", "int", str(big)]], "uuid": generate_uuid5({"x": big})})
big = -(10**4300 - 1)
cases.append({"columns": [["x", "int", str(big)]], "uuid": generate_uuid5({"x": big})})
try:
    str(10**4300)
    raise SystemExit("no limit")
except ValueError:
    pass
out = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
if fresh:
    print(out)
else:
    with open("uuid5_more.json", "w") as f:
        f.write(out)
