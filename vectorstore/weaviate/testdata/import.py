"""Imports objects with weaviate-client and prints, a line for each way of its batching, a JSON object with what it took.

usage: import.py HTTP_HOST:PORT GRPC_HOST:PORT COLLECTION_PREFIX OBJECTS DIMENSIONS
"""

import json
import random
import resource
import sys
import time
import uuid

import weaviate
from weaviate.classes.config import Configure, DataType, Property, VectorDistances

http, grpc, prefix, objects, dimensions = sys.argv[1:]
objects, dimensions = int(objects), int(dimensions)
host, port = http.rsplit(":", 1)
grpc_host, grpc_port = grpc.rsplit(":", 1)

random.seed(1)
rows = [
    (
        str(uuid.UUID(int=n)),
        {"product_id": n, "description": f"product number {n}, a thing that is sold", "price": float(n)},
        {"text_vector": [random.gauss(0, 1) for _ in range(dimensions)]},
    )
    for n in range(objects)
]

client = weaviate.connect_to_custom(host, int(port), False, grpc_host, int(grpc_port), False, skip_init_checks=True)
try:
    ways = {
        "fixed 100 x 2": lambda batch: batch.fixed_size(batch_size=100, concurrent_requests=2),
        "fixed 200 x 4": lambda batch: batch.fixed_size(batch_size=200, concurrent_requests=4),
        "fixed 1000 x 2": lambda batch: batch.fixed_size(batch_size=1000, concurrent_requests=2),
        "dynamic": lambda batch: batch.dynamic(),
    }
    for n, (way, batching) in enumerate(ways.items()):
        name = f"{prefix}_{n}"
        collection = client.collections.create(
            name,
            properties=[
                Property(name="product_id", data_type=DataType.INT),
                Property(name="description", data_type=DataType.TEXT),
                Property(name="price", data_type=DataType.NUMBER),
            ],
            vector_config=[
                Configure.Vectors.self_provided(
                    name="text_vector",
                    vector_index_config=Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE),
                )
            ],
        )
        try:
            used = resource.getrusage(resource.RUSAGE_SELF)
            start = time.perf_counter()
            with batching(collection.batch) as batch:
                for id, properties, vector in rows:
                    batch.add_object(uuid=id, properties=properties, vector=vector)
            took = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_SELF)
            if collection.batch.failed_objects or len(collection) != objects:
                sys.exit(f"{way}: {len(collection)} of {objects} objects are there")
            cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            print(json.dumps({"way": way, "seconds": took, "cpu": cpu}))
        finally:
            client.collections.delete(name)
finally:
    client.close()
