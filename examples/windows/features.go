package main

import (
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
)

// Feature is what a user did in a window. Late ones are single clicks that came when their windows were gone; watermarks say how far
// a partition is complete.
type Feature struct {
	Job       string    `avro:"job"`
	Kind      string    `avro:"kind"` // on time, updated, late or watermark
	Partition int       `avro:"partition"`
	User      string    `avro:"user"`
	Start     time.Time `avro:"start"`
	End       time.Time `avro:"end"`
	Clicks    int64     `avro:"clicks"`
	Spent     float64   `avro:"spent"`
}

const (
	late      = "late"
	watermark = "watermark"
)

// job is one kind of windows over all clicks.
type job struct {
	name, what string
	windows    window.Assigner
}

var jobs = []job{
	{"tumbling", "10 s", window.Tumbling(10 * time.Second)},
	{"sliding", "30 s, every 10 s", window.Sliding(30*time.Second, 10*time.Second)},
	{"session", "until 5 s without a click", window.Session(5 * time.Second)},
}

type totals struct {
	clicks int64
	spent  float64
}

type operator = window.Operator[string, Click, aggregate.Acc2[int64, aggregate.Exact], totals]

// features are the windows of one partition, online and in the replay: a pulsarx.Processor, whose Snapshot and Restore are the
// operator's own.
type features struct {
	*operator
	job string
}

func (j job) features(pulsarx.Partition) (pulsarx.Processor[Click, Feature], error) {
	op, err := window.New(
		func(c Click) string { return c.User },
		j.windows,
		aggregate.Pair(aggregate.Count[Click](), aggregate.Sum(func(c Click) float64 { return c.Spent }),
			func(clicks int64, spent float64) totals { return totals{clicks, spent} }),
		window.Options{Watermark: window.BoundedOutOfOrderness(disorder), AllowedLateness: 5 * time.Second},
	)
	return features{op, j.name}, err
}

func (f features) Process(m pulsarx.Message[Click], emit func(Feature)) error {
	result := func(r window.Result[string, totals]) {
		emit(Feature{
			Job: f.job, Kind: r.Kind.String(), Partition: m.Partition, User: r.Key,
			Start: r.Window.Start.Time(), End: r.Window.End.Time(), Clicks: r.Value.clicks, Spent: r.Value.spent,
		})
	}
	c := m.Value
	if c.User == "" {
		f.Advance(m.Partition, window.TimestampOf(c.At), result)
		emit(Feature{Job: f.job, Kind: watermark, Partition: m.Partition, Start: c.At, End: c.At})
		return nil
	}
	outcome, err := f.operator.Process(m.Partition, window.TimestampOf(c.At), c, result)
	if outcome == window.Late {
		emit(Feature{Job: f.job, Kind: late, Partition: m.Partition, User: c.User, Start: c.At, End: c.At, Clicks: 1, Spent: c.Spent})
	}
	return err
}
