"""Writes resolution.json: random writer's and reader's schemas, data in the first, and what fastavro reads as the second.

pip install fastavro==1.13.1; python resolution.py > resolution.json
"""
import decimal, io, json, random, datetime, uuid
import fastavro

R = random.Random(20241)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
decimal.getcontext().prec = 60


class Names:
    def __init__(self):
        self.n = 0

    def new(self, p):
        self.n += 1
        return f"{p}{self.n}"


def schema(names, depth):
    kinds = ["null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed", "decimal", "date",
             "timestamp-millis", "timestamp-micros", "time-millis", "time-micros", "uuid"]
    if depth > 0:
        kinds += ["array", "map", "record", "union"] * 4
    k = R.choice(kinds)
    if k == "enum":
        return {"type": "enum", "name": names.new("E"), "symbols": ["A", "B", "C"][: R.randint(1, 3)]}
    if k == "fixed":
        return {"type": "fixed", "name": names.new("F"), "size": R.randint(0, 4)}
    if k == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": R.randint(0, 6)}
    if k == "date" or k == "time-millis":
        return {"type": "int", "logicalType": k}
    if k.startswith("time"):
        return {"type": "long", "logicalType": k}
    if k == "uuid":
        return {"type": "string", "logicalType": "uuid"}
    if k == "array":
        return {"type": "array", "items": schema(names, depth - 1)}
    if k == "map":
        return {"type": "map", "values": schema(names, depth - 1)}
    if k == "record":
        return record(names, depth)
    if k == "union":
        branches, seen = [], set()
        for _ in range(R.randint(1, 4)):
            b = schema(names, depth - 1)
            if isinstance(b, list):
                continue
            key = b if isinstance(b, str) else (b.get("name") or b["type"])
            key = "string" if key == "bytes" else key  # fastavro takes a promotion that stands before the same type
            if key in seen:
                continue
            seen.add(key)
            branches.append(b)
        return branches or ["null"]
    return k


def record(names, depth):
    return {"type": "record", "name": names.new("R"),
            "fields": [{"name": f"f{i}", "type": schema(names, depth - 1)} for i in range(R.randint(0, 4))]}


def datum(s):
    if isinstance(s, list):
        # fastavro picks a branch by the value: say which one
        i = R.randrange(len(s))
        return ("union", i, datum(s[i]))
    if isinstance(s, dict):
        l = s.get("logicalType")
        if l == "decimal":
            return decimal.Decimal(R.randint(-10**12, 10**12)).scaleb(-s["scale"])
        if l == "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=R.randint(-10000, 30000))
        if l == "timestamp-millis":
            return EPOCH + datetime.timedelta(milliseconds=R.randint(-10**12, 10**13))
        if l == "timestamp-micros":
            return EPOCH + datetime.timedelta(microseconds=R.randint(-10**15, 10**16))
        if l == "time-millis":
            return (datetime.datetime.min + datetime.timedelta(milliseconds=R.randrange(86400000))).time()
        if l == "time-micros":
            return (datetime.datetime.min + datetime.timedelta(microseconds=R.randrange(86400000000))).time()
        if l == "uuid":
            return uuid.UUID(int=R.getrandbits(128))
        t = s["type"]
        if t == "enum":
            return R.choice(s["symbols"])
        if t == "fixed":
            return R.randbytes(s["size"])
        if t == "array":
            return [datum(s["items"]) for _ in range(R.randint(0, 3))]
        if t == "map":
            return {f"k{i}": datum(s["values"]) for i in range(R.randint(0, 3))}
        if t == "record":
            return {f["name"]: datum(f["type"]) for f in s["fields"]}
        s = t
    if s == "null":
        return None
    if s == "boolean":
        return R.random() < 0.5
    if s == "int":
        return R.choice([0, 1, -1, 2**31 - 1, -(2**31), R.randint(-1000, 1000)])
    if s == "long":
        return R.choice([0, -1, 2**63 - 1, -(2**63), R.randint(-10**9, 10**9)])
    if s in ("float", "double"):
        return R.choice([0.0, -1.5, 0.25, 1024.0, float("inf")])
    if s == "bytes":
        return R.choice([b"", b"ab", "ä".encode()])
    return R.choice(["", "x", "ä€", "long" * 20])


def write(out, s, v):
    """The binary form, so that a union's branch is the one that was chosen."""
    if isinstance(s, list):
        fastavro.schemaless_writer(out, "long", v[1])
        write(out, s[v[1]], v[2])
    elif isinstance(s, dict) and s["type"] == "record":
        for f in s["fields"]:
            write(out, f["type"], v[f["name"]])
    elif isinstance(s, dict) and s["type"] == "array":
        if v:
            if R.random() < 0.3:
                inner = io.BytesIO()
                for x in v:
                    write(inner, s["items"], x)
                fastavro.schemaless_writer(out, "long", -len(v))
                fastavro.schemaless_writer(out, "long", len(inner.getvalue()))
                out.write(inner.getvalue())
            else:
                fastavro.schemaless_writer(out, "long", len(v))
                for x in v:
                    write(out, s["items"], x)
        out.write(b"\0")
    elif isinstance(s, dict) and s["type"] == "map":
        if v:
            fastavro.schemaless_writer(out, "long", len(v))
            for k, x in v.items():
                fastavro.schemaless_writer(out, "string", k)
                write(out, s["values"], x)
        out.write(b"\0")
    else:
        fastavro.schemaless_writer(out, s, v)


def default_for(s):
    """A JSON default, or ... where none is made."""
    if isinstance(s, list):
        return default_for(s[0])
    if isinstance(s, dict):
        if s.get("logicalType"):
            return ...
        t = s["type"]
        if t == "enum":
            return s["symbols"][-1]
        if t == "fixed":
            return ...  # fastavro gives text
        if t == "array":
            d = default_for(s["items"])
            return ... if d is ... else [d, d]
        if t == "map":
            d = default_for(s["values"])
            return ... if d is ... else {"d": d}
        out = {}
        for f in s["fields"]:
            d = default_for(f["type"])
            if d is ...:
                return ...
            out[f["name"]] = d
        return out
    return {"null": None, "boolean": True, "int": 7, "long": 2**40, "float": 1.5, "double": -2.5, "bytes": ..., "string": "dflt"}[s]


def evolve(s, names, depth):
    """A reader's schema for what s wrote."""
    p = R.random()
    if isinstance(s, list):  # a logical type stays: fastavro gives it to what its base is promoted to
        branches = [evolve(b, names, depth) for b in s if R.random() < 0.85 or isinstance(b, dict) and "logicalType" in b]
        flat, seen = [], set()
        for b in branches + (["null"] if p < 0.2 else []):
            for x in b if isinstance(b, list) else [b]:
                key = x if isinstance(x, str) else (x.get("name") or x["type"])
                if key not in seen:
                    seen.add(key)
                    flat.append(x)
        R.shuffle(flat)
        if len(flat) == 1 and p > 0.5:
            return flat[0]
        return flat or ["null"]
    if isinstance(s, str):
        # int and long to float is left out: Python's floats are doubles
        up = {"int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"], "bytes": ["string"]}.get(s, [])
        if up and p < 0.3:
            s = R.choice(up)
        elif p > 0.97:
            s = R.choice(["int", "string", "boolean"])
        if R.random() < 0.15 and s != "null":
            return R.choice([["null", s], [s, "null"], ["boolean", s] if s != "boolean" else [s]])
        return s
    s = dict(s)
    if s.get("logicalType"):
        return ["null", s] if p < 0.1 else s
    if s["type"] == "enum":
        if p < 0.3:
            s["symbols"] = ["C", "A", "D"]
            if p < 0.15:
                s["default"] = "D"
    elif s["type"] == "fixed" and p < 0.1:
        s["size"] += 1
    elif s["type"] == "array":
        s["items"] = evolve(s["items"], names, depth - 1)
    elif s["type"] == "map":
        s["values"] = evolve(s["values"], names, depth - 1)
    elif s["type"] == "record":
        fields = []
        for f in s["fields"]:
            if R.random() < 0.15:
                continue
            f = {"name": f["name"], "type": evolve(f["type"], names, depth - 1)}
            if R.random() < 0.2:
                f = {"name": "new_" + f["name"], "aliases": ["other", f["name"]], "type": f["type"]}
            fields.append(f)
        for _ in range(R.randint(0, 2)):
            t = schema(names, 1)
            f = {"name": names.new("added"), "type": t}
            d = default_for(t)
            if d is not ...:
                f["default"] = d
            elif R.random() < 0.8:
                continue
            fields.append(f)
        R.shuffle(fields)
        s["fields"] = fields
    return s


def canon(v):
    """Values with their types, exactly."""
    if v is None or isinstance(v, bool):
        return v
    if isinstance(v, int):
        return f"i:{v}"
    if isinstance(v, float):
        return f"f:{v.hex()}"
    if isinstance(v, bytes):
        return f"b:{v.hex()}"
    if isinstance(v, decimal.Decimal):
        return f"d:{v:f}"
    if isinstance(v, uuid.UUID):
        return f"s:{v}"
    if isinstance(v, datetime.datetime):
        return f"t:{(v - EPOCH) // datetime.timedelta(microseconds=1)}"
    if isinstance(v, datetime.date):
        return f"t:{(v - datetime.date(1970, 1, 1)).days * 86400000000}"
    if isinstance(v, datetime.time):
        return f"u:{((v.hour * 60 + v.minute) * 60 + v.second) * 1000000 + v.microsecond}"
    if isinstance(v, str):
        return f"s:{v}"
    if isinstance(v, list):
        return [canon(x) for x in v]
    return {k: canon(x) for k, x in v.items()}


def main():
    cases = []
    while len(cases) < 600:
        names = Names()
        w = record(names, 3) if R.random() < 0.8 else schema(names, 3)
        r = evolve(w, names, 3)
        out = io.BytesIO()
        try:
            fastavro.parse_schema(json.loads(json.dumps(w)))
            fastavro.parse_schema(json.loads(json.dumps(r)))
        except Exception:
            continue
        write(out, w, datum(w))
        case = {"writer": w, "reader": r, "data": out.getvalue().hex()}
        try:
            stream = io.BytesIO(out.getvalue())
            got = fastavro.schemaless_reader(stream, json.loads(json.dumps(w)), json.loads(json.dumps(r)))
            if stream.read():
                continue
            case["value"] = canon(got)
        except Exception as e:
            case["error"] = type(e).__name__
        if len(json.dumps(case)) < 3000:
            cases.append(case)
    print("[")
    print(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
    print("]")


main()
