"""Speaks Pulsar's schemas with the Python client, for TestSchemasWithPython.

    python3 schemas.py pulsar://localhost:6650 write TOPIC [TOPIC...]
    python3 schemas.py pulsar://localhost:6650 read TOPIC [TOPIC...]

The last part of a topic's name, behind a dash, says the schema: string, bytes, json or avro. What is read is printed as JSON.
"""

import json
import sys

import pulsar
from pulsar.schema import Array, AvroSchema, Boolean, Bytes, BytesSchema, CustomEnum, Double, Float, Integer, JsonSchema, Long, Map
from pulsar.schema import Record, String, StringSchema
from enum import Enum


class Color(Enum):
    RED = 1
    GREEN = 2


class Address(Record):
    street = String(required=True)
    zip = String()


class Person(Record):
    _avro_namespace = "com.example"
    name = String(required=True)
    nick = String()
    age = Integer()
    worth = Long(required=True)
    ratio = Double(required=True)
    half = Float()
    ok = Boolean(required=True)
    tags = Array(String())
    counts = Map(Long())
    home = Address()
    past = Array(Address())


class Painted(Record):
    _avro_namespace = "com.example"
    person = Person()
    blob = Bytes()
    color = CustomEnum(Color)


person = Person(
    name="Ünal", age=-7, worth=2**62 + 1, ratio=0.1, half=0.25, ok=True, tags=["a", ""], counts={"x": 2**53 + 1},
    home=Address(street="s", zip="8000"), past=[Address(street="p", zip=None)],
)


schemas = {
    "string": (StringSchema(), "Ünal"),
    "bytes": (BytesSchema(), b"\x00\xff"),
    "json": (JsonSchema(Person), person),
    "avro": (AvroSchema(Painted), Painted(person=person, blob=b"\x00\xff", color=Color.GREEN)),
}


def plain(v):
    if isinstance(v, Record):
        return {name: plain(getattr(v, name)) for name in v._fields}
    if isinstance(v, Enum):
        return v.name
    if isinstance(v, bytes):
        return v.hex()
    if isinstance(v, list):
        return [plain(item) for item in v]
    if isinstance(v, dict):
        return {key: plain(item) for key, item in v.items()}
    return v


client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
result = {}
for topic in sys.argv[3:]:
    kind = topic.rsplit("-", 1)[1]
    schema, value = schemas[kind]
    if sys.argv[2] == "write":
        producer = client.create_producer(topic, schema=schema)
        producer.send(value, partition_key="k", properties={"p": "v"}, event_timestamp=1700000000123)
        producer.close()
        continue
    reader = client.create_reader(topic, pulsar.MessageId.earliest, schema=schema)
    read = []
    while reader.has_message_available():
        message = reader.read_next(timeout_millis=30000)
        read.append({
            "value": plain(message.value()), "key": message.partition_key(), "p": message.properties().get("p"),
            "at": message.event_timestamp(),
        })
    result[kind] = read
client.close()
json.dump(result, sys.stdout)
