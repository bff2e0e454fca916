package pgvector

import "github.com/tidemark-go/tidemark/vectorstore"

// Statement returns what Search would send.
func Statement(s *Store, q vectorstore.Query) (string, []any) {
	b := &selection{store: s}
	statement, err := b.statement(q, q.NearTargets())
	if q.Text != "" {
		b = &selection{store: s}
		statement, err = b.keywords(q)
	}
	if err != nil {
		panic(err)
	}
	return statement, b.args
}
