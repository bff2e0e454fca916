package embedtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

func ExampleNew() {
	e := embedtest.New(384)
	vectors, err := e.Embed(context.Background(), []string{"red running shoes", "Shoes, red", "a pot of tea"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("shares two words: %.1f\n", cosine(vectors[0], vectors[1]))
	fmt.Printf("shares none:      %.1f\n", math.Abs(cosine(vectors[0], vectors[2])))
	fmt.Println("calls:", e.Calls(), "texts:", len(e.Inputs()))
	// Output:
	// shares two words: 0.8
	// shares none:      0.0
	// calls: 1 texts: 3
}

func ExampleFault() {
	e := embedtest.New(384)
	e.Inject(embedtest.Fault{Match: "poison", Permanent: true})

	vectors, err := e.Embed(context.Background(), []string{"shoes", "poison", "tea"})
	var batch *embed.BatchError
	if errors.As(err, &batch) {
		for i, err := range batch.ItemErrors() {
			fmt.Println(i, len(vectors[i]), err)
		}
	}
	// Output:
	// 0 384 <nil>
	// 1 0 embedtest: injected fault
	// 2 384 <nil>
}
