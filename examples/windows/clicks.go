package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// Click is what the pages of a shop send. One without a user is a heartbeat: it says that all clicks up to its time have come.
type Click struct {
	User  string    `avro:"user"`
	Page  string    `avro:"page"`
	Spent float64   `avro:"spent"` // at the checkout; 0 on other pages
	At    time.Time `avro:"at"`    // when it happened, which may be long before it comes
}

const (
	partitions = 3
	disorder   = 3 * time.Second  // how far behind later ones most clicks come
	length     = 90 * time.Second // of the story, in event time
	beat       = 5 * time.Second  // between two heartbeats
)

var start = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)

// arrival is a click, and when and where it comes.
type arrival struct {
	Click
	key string
	at  time.Duration // since start
}

// arrivals are the clicks of eight users in the order in which they come: most within the disorder, one of 25 long after. Between
// them come heartbeats to every partition; the last ones end the day.
func arrivals() []arrival {
	users := []string{"ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hana"}
	pages := []string{"/", "/mugs", "/lamps", "/tents", "/checkout"}
	random := rand.New(rand.NewPCG(9, 3))
	var all []arrival
	for _, user := range users {
		// Visits with pauses between them, which the sessions find again.
		for t := within(random, 10*time.Second); t < length; t += 6*time.Second + within(random, 20*time.Second) {
			for range 3 + random.IntN(8) {
				c := Click{User: user, Page: pages[random.IntN(len(pages))], At: start.Add(t)}
				if c.Page == "/checkout" {
					c.Spent = float64(random.IntN(10_000)) / 100
				}
				delay := within(random, disorder)
				if random.IntN(25) == 0 {
					delay += 10*time.Second + within(random, 20*time.Second)
				}
				all = append(all, arrival{c, user, t + delay})
				t += within(random, 2*time.Second)
			}
		}
	}
	for t := beat; t < length; t += beat {
		all = append(all, heartbeats(t, start.Add(t-disorder))...)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	last := all[len(all)-1].at
	return append(all, heartbeats(last, endOfDay)...)
}

var endOfDay = start.Add(time.Hour)

// within is a random time below d, in microseconds as Avro has them.
func within(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d))).Truncate(time.Microsecond)
}

const heartbeatKey = "heartbeat-"

func heartbeats(at time.Duration, upTo time.Time) (all []arrival) {
	for p := range partitions {
		all = append(all, arrival{Click{At: upTo}, heartbeatKey + strconv.Itoa(p), at})
	}
	return all
}

// partition sends all clicks of a user to one partition, and a heartbeat to the one that it is for.
func partition(key string, partitions int) int {
	if p, ok := strings.CutPrefix(key, heartbeatKey); ok {
		n, err := strconv.Atoi(p)
		if err != nil {
			panic(err) // a fault of this program
		}
		return n
	}
	hash := fnv.New32a()
	hash.Write([]byte(key))
	return int(hash.Sum32() % uint32(partitions))
}

// send sends what comes, at its own pace, so many times as fast as it happened; 0 does not wait.
func send(ctx context.Context, client *pulsarx.Client, topic string, all []arrival, speed float64) error {
	producer, err := pulsarx.NewProducer(ctx, client, pulsarx.Avro[Click](), pulsarx.ProducerOptions[Click]{
		Topic: topic, Partition: partition, EventTime: func(c Click) time.Time { return c.At },
	})
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close(context.WithoutCancel(ctx)) }() // everything has its receipt
	for i, a := range all {
		if i > 0 && speed > 0 {
			if err := sleep(ctx, time.Duration(float64(a.at-all[i-1].at)/speed)); err != nil {
				return err
			}
		}
		if _, err := producer.Send(ctx, a.Click, pulsarx.Key(a.key)); err != nil {
			return fmt.Errorf("click %d: %w", i, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
