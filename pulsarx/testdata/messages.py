"""Sends messages as Pulsar's client for Python does, for TestMessagesOfPython.

    python3 messages.py pulsar://localhost:6650 TOPIC PUBLIC.pem

Compressed in each way, encrypted and not, alone, in batches and in chunks: the value says how, and behind that a large one has the
SHA-256 of the rest.
"""

import hashlib
import itertools
import os
import sys

import pulsar
from pulsar import BatchingType, CompressionType

url, topic, public = sys.argv[1:]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
compressions = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zlib": CompressionType.ZLib, "zstd": CompressionType.ZSTD,
                "snappy": CompressionType.SNAPPY}


def producer(compression, encrypted, **options):
    if encrypted:
        options |= {"encryption_key": "app", "crypto_key_reader": pulsar.CryptoKeyReader(public, "")}
    return client.create_producer(topic, compression_type=compressions[compression], **options)


for name, encrypted, batched in itertools.product(compressions, (False, True), (False, True)):
    p = producer(name, encrypted, batching_enabled=batched, batching_type=BatchingType.KeyBased, batching_max_publish_delay_ms=1000)
    for i in range(3):
        p.send_async(f"{name} {encrypted} {'batch' if batched else 'alone'} {i}".encode(), lambda result, id: None, partition_key=f"k{i}", ordering_key="o",
                     properties={"ü": "ö", "": "empty"}, event_timestamp=1700000000123)
    p.flush()
    p.close()

noise = os.urandom(6 << 20)
for name, encrypted in (("lz4", False), ("snappy", True), ("none", True), ("none", False)):
    p = producer(name, encrypted, chunking_enabled=True)
    p.send(f"{name} {encrypted} chunks {hashlib.sha256(noise).hexdigest()} ".encode() + noise, partition_key="k")
    p.close()
client.close()
