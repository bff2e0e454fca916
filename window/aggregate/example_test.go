package aggregate_test

import (
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/window"
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

// Five features over one window, as a struct.
func ExampleJoin5() {
	type features struct {
		Orders               int64
		Spent, Mean, Highest float64
		Median               []float64
	}
	g := aggregate.Join5(
		aggregate.Count[order](),
		aggregate.Sum(price),
		aggregate.Mean(price),
		aggregate.Max(price),
		aggregate.Quantiles(price, 0.01, 0.5),
		func(n int64, spent, mean, highest float64, median []float64) features {
			return features{n, spent, mean, highest, median}
		},
	)
	// What an operator of these is, where it has to be written.
	var _ *window.Operator[string, order, aggregate.Acc5[int64, aggregate.Exact, aggregate.Moments, aggregate.Kept[float64], aggregate.Sketch], features]
	op, _ := window.New(func(o order) string { return o.user }, window.Tumbling(time.Hour), g, window.Options{})
	emit := func(r window.Result[string, features]) {
		fmt.Printf("%s: %d orders, %.2f spent\n", r.Key, r.Value.Orders, r.Value.Spent)
	}
	for i, o := range orders[:3] {
		_, _ = op.Process(0, window.Timestamp(i), o, emit)
	}
	op.Finish(emit)
	// Output:
	// ann: 2 orders, 0.40 spent
	// bob: 1 orders, 0.20 spent
}

// Two aggregates over one window, as a struct.
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
