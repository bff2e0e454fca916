"""Writes uuid5_more.json: ids of random keys as Python 3.11 makes them. The Go tests read it; nothing runs this script.

Weaviate's client: generate_uuid5(identifier) is str(uuid.uuid5(uuid.NAMESPACE_DNS, str(identifier))).
"""
import json
import random
import struct
import sys
import unicodedata
import uuid

assert sys.version_info[:2] == (3, 11) and unicodedata.unidata_version == "14.0.0"
rng = random.Random(20240229)


def text():
    alphabets = ["ab'\"\\ \t\n\r\x00\x1f\x7f", "éß\xa0\xad\u0378\u200b\u2028\ue000\ufeff\ufffd", "日本😀\U0001fae8\U000e0001\U0010ffff"]
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
    cases.append({"columns": columns, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, str(key)))})
for f in [float("nan"), float("inf"), float("-inf")]:
    cases.append({"columns": [["x", "float", struct.pack(">d", f).hex()]], "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, str({"x": f})))})
big = 10**4300 - 1
cases.append({"columns": [["x", "int", str(big)]], "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, str({"x": big})))})
big = -(10**4300 - 1)
cases.append({"columns": [["x", "int", str(big)]], "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, str({"x": big})))})
try:
    str(10**4300)
    raise SystemExit("no limit")
except ValueError:
    pass
with open("uuid5_more.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
