"""Imports objects with weaviate-client into a collection that is there, and prints what it took as a JSON object.

usage: import.py HTTP_HOST:PORT GRPC_HOST:PORT COLLECTION FIRST OBJECTS DIMENSIONS SETTING
"""

import json
import random
import resource
import sys
import time

import weaviate

http, grpc, name, first, objects, dimensions, setting = sys.argv[1:]
first, objects, dimensions = int(first), int(objects), int(dimensions)
host, port = http.rsplit(":", 1)
grpc_host, grpc_port = grpc.rsplit(":", 1)

# A vector is a piece of one sequence: pieces that begin at different places have as little to do with each other as new ones, and
# are there at once.
random.seed(first)
sequence = [random.gauss(0, 1) for _ in range(objects + dimensions)]
rows = [
    (
        f"{n:08x}-0000-5000-8000-{n:012x}",
        {"product_id": n, "description": f"product number {n}, a thing that is sold", "price": float(n)},
        {"text_vector": sequence[n - first : n - first + dimensions]},
    )
    for n in range(first, first + objects)
]

client = weaviate.connect_to_custom(host, int(port), False, grpc_host, int(grpc_port), False, skip_init_checks=True)
try:
    collection = client.collections.use(name)
    batching = {
        "fixed 100 x 2": lambda batch: batch.fixed_size(batch_size=100, concurrent_requests=2),
        "fixed 200 x 4": lambda batch: batch.fixed_size(batch_size=200, concurrent_requests=4),
        "fixed 1000 x 2": lambda batch: batch.fixed_size(batch_size=1000, concurrent_requests=2),
        "stream": lambda batch: batch.stream(),
    }[setting]
    used = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    with batching(collection.batch) as batch:
        for id, properties, vector in rows:
            batch.add_object(uuid=id, properties=properties, vector=vector)
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    if collection.batch.failed_objects:
        sys.exit(f"{setting}: {collection.batch.failed_objects[0]}")
    print(json.dumps({"seconds": took, "cpu": after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime}))
finally:
    client.close()
