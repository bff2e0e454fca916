// Package weaviate x.
package weaviate
