package embed_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
