package aggregate_test

import (
	"fmt"

	"github.com/tidemark-go/tidemark/window/aggregate"
)

type order struct {
	user  string
	price float64
}

func price(o order) float64 { return o.price }

var orders = []order{{"ann", 0.1}, {"bob", 0.2}, {"ann", 0.3}, {"ann", 1e16}, {"bob", -1e16}}

// An exact sum has no rounding on the way.
func ExampleSum() {
	g := aggregate.Sum(price)
	var acc aggregate.Exact
	plain := 0.0
	for _, o := range orders {
		g.Add(&acc, o)
		plain += o.price
	}
	fmt.Println(g.Result(&acc), plain)
	// Output: 0.6 0
}

// Several aggregates over one window, as a struct.
func ExamplePair() {
	type features struct {
		Orders int64
		Users  []aggregate.Item[string]
	}
	g := aggregate.Pair(
		aggregate.Count[order](),
		aggregate.TopK(func(o order) string { return o.user }, 2, 100),
		func(n int64, users []aggregate.Item[string]) features { return features{n, users} },
	)
	var acc aggregate.Acc2[int64, aggregate.Tops[string]]
	for _, o := range orders {
		g.Add(&acc, o)
	}
	fmt.Println(g.Result(&acc))
	// Output: {5 [{ann 3 0} {bob 2 0}]}
}
