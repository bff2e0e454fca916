"""collections.py HTTP GRPC PREFIX creates collections as users of the Python client do, and prints their names as JSON."""
import json
import sys

import weaviate
from weaviate.classes.config import Configure, DataType, Property, Tokenization, VectorDistances

http, grpc, prefix = sys.argv[1:]
(http_host, http_port), (grpc_host, grpc_port) = http.split(":"), grpc.split(":")
names = {}
title = Property(name="title", data_type=DataType.TEXT)
# The checks have two seconds, which is little on a busy machine.
with weaviate.connect_to_custom(http_host, int(http_port), False, grpc_host, int(grpc_port), False, skip_init_checks=True) as client:

    def create(kind, **settings):
        names[kind] = f"{prefix}_{kind}"
        return client.collections.create(names[kind], **settings)

    create("plain", properties=[title]).data.insert({"title": "old"}, vector=[1, 0, 0])
    create("two", properties=[title], vector_config=[
        Configure.Vectors.self_provided(name="text_vector"), Configure.Vectors.self_provided(name="image_vector"),
    ]).data.insert({"title": "old"}, vector={"text_vector": [1, 0, 0], "image_vector": [1, 0]})
    create("legacy", properties=[title], vector_index_config=Configure.VectorIndex.hnsw()).data.insert({"title": "old"}, vector=[1, 0])
    tenants = create("tenants", multi_tenancy_config=Configure.multi_tenancy(enabled=True))
    tenants.tenants.create("first")
    tenants.with_tenant("first").data.insert({"title": "old"}, vector=[1, 0, 0])
    create("tuned", description="Tuned.", generative_config=Configure.Generative.openai(), reranker_config=Configure.Reranker.cohere(),
           inverted_index_config=Configure.inverted_index(bm25_b=0.7, bm25_k1=1.1, index_null_state=True),
           vector_config=Configure.Vectors.self_provided(name="text_vector", quantizer=Configure.VectorIndex.Quantizer.rq(),
               vector_index_config=Configure.VectorIndex.hnsw(distance_metric=VectorDistances.L2_SQUARED, ef_construction=90, max_connections=24)),
           properties=[
               Property(name="title", data_type=DataType.TEXT, description="Its title.", tokenization=Tokenization.FIELD, index_searchable=False),
               Property(name="price", data_type=DataType.NUMBER, index_range_filters=True),
               Property(name="maker", data_type=DataType.OBJECT, nested_properties=[Property(name="name", data_type=DataType.TEXT)]),
           ])
    create("module", properties=[title], vector_config=Configure.Vectors.text2vec_openai(name="text_vector"))
print(json.dumps(names))
