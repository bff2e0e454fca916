package memory_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/vectorstore"
	"github.com/tidemark-go/tidemark/vectorstore/memory"
	"github.com/tidemark-go/tidemark/vectorstore/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) vectorstore.Store { return memory.New() })
}
