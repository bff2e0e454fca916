// Package vectorstore keeps a vector store equal to a table: it turns change events into objects with vectors.
package vectorstore
