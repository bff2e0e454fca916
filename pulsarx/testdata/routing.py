"""Sends each key of a file, a JSON array, to a topic, and prints the partitions that they went to, in that order.

    python3 routing.py pulsar://localhost:6650 persistent://public/default/topic keys.json

By default the Python client chooses partitions by another hash than Java's and pulsarx's Murmur3_32Hash; message_router is the way to
have the same. routing.json holds the keys and what pulsar-client 3.13.0 printed for a topic of 100 partitions.
"""

import json
import sys

import pulsar


def murmur3(data: bytes) -> int:
    """MurmurHash3_x86_32 with seed 0, without its highest bit."""

    def rotate(x, n):
        return (x << n | x >> (32 - n)) & 0xFFFFFFFF

    def mix(block):
        return rotate(int.from_bytes(block, "little") * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF

    h, whole = 0, len(data) // 4 * 4
    for i in range(0, whole, 4):
        h = (rotate(h ^ mix(data[i : i + 4]), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= mix(data[whole:]) ^ len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (h ^ h >> 16) & 0x7FFFFFFF


client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
producer = client.create_producer(
    sys.argv[2],
    message_router=lambda message, partitions: murmur3(message.partition_key().encode()) % partitions,
    batching_enabled=True,
    block_if_queue_full=True,
)
keys = json.load(open(sys.argv[3]))
partitions = {}
for i, key in enumerate(keys):

    def received(result, message_id, i=i):
        partitions[i] = message_id.partition() if result == pulsar.Result.Ok else str(result)

    producer.send_async(b"python", received, partition_key=key)
producer.flush()
client.close()
json.dump([partitions[i] for i in range(len(keys))], sys.stdout)
