// Package memory has a [vectorstore.Store] in memory: exact search by cosine, for tests, examples, and collections that
// fit.
//
// A search compares the query with every vector of its name, multi-vectors too, or with the words of every text, so its result is exact
// and its time grows with the number of objects. All texts are cut by [vectorstore.WordTokenization]. Nothing is written to disk but by
// [Store.Save], whose file [Load] reads. Tenants are kept apart. Deletions are remembered until the store is cleared.
//
//	store := memory.New()
//	err := store.Apply(ctx, []vectorstore.Mutation{{Object: vectorstore.Object{Ref: ref, Vectors: vectors}}})
//	matches, err := store.Search(ctx, vectorstore.Query{Vector: "text_vector", Near: v, Limit: 3})
package memory
