package features_test

import (
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
	"github.com/tidemark-go/tidemark/window/features"
)

type purchase struct {
	user  string
	price float64
}

// What a user has spent in the last minutes, asked while purchases come in, one of them out of order.
//
//	minute    0    1    2    3    4    5    6
//	ann       5         7              2
//	asked                         last 3 and 5 minutes at 4, and at 6
func ExampleTable() {
	spent, err := features.New(func(p purchase) string { return p.user }, 5*time.Minute, aggregate.Sum(func(p purchase) float64 { return p.price }),
		features.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	minute := func(n int) window.Timestamp { return window.TimestampOf(time.Unix(int64(60*n), 0)) }
	add := func(at int, price float64) {
		if outcome, err := spent.Add(0, minute(at), purchase{"ann", price}); err != nil || outcome != window.Accepted {
			fmt.Println(outcome, err)
		}
	}
	ask := func(at int) {
		short, _ := spent.Get("ann", minute(at), 3*time.Minute)
		long, _ := spent.Get("ann", minute(at), 5*time.Minute)
		fmt.Printf("minute %d: %v in the last 3 minutes, %v in the last 5\n", at, short, long)
	}
	add(2, 7)
	add(0, 5)
	ask(4)
	add(5, 2)
	ask(6)
	// Output:
	// minute 4: 7 in the last 3 minutes, 12 in the last 5
	// minute 6: 2 in the last 3 minutes, 9 in the last 5
}
