package pulsarx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// visits counts the pages of each visitor of a partition.
type visits map[string]int

func (v visits) Process(m pulsarx.Message[string], emit func(string)) error {
	v[m.Key]++
	emit(fmt.Sprintf("%s has seen %d pages", m.Key, v[m.Key]))
	return nil
}

func (v visits) Snapshot(w io.Writer) error { return json.NewEncoder(w).Encode(v) }
func (v visits) Restore(r io.Reader) error  { return json.NewDecoder(r).Decode(&v) }

// Counts that outlive the process: the second run goes on where the first one was stopped, and a replay says the same.
func ExampleRunStateful() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{Deduplication: true})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx := context.Background()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	dir, err := os.MkdirTemp("", "checkpoints")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	store, err := pulsarx.NewDirStore(dir)
	if err != nil {
		log.Fatal(err)
	}
	clicks, err := pulsarx.NewProducer(ctx, client, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: "clicks"})
	if err != nil {
		log.Fatal(err)
	}
	defer clicks.Close(ctx)
	factory := func(pulsarx.Partition) (pulsarx.Processor[string, string], error) { return visits{}, nil }
	for day := 1; day <= 2; day++ {
		if _, err := clicks.Send(ctx, "/docs", pulsarx.Key("ann")); err != nil {
			log.Fatal(err)
		}
		running, stop := context.WithCancel(ctx)
		go func() { // a service would stop with its process
			for broker.Backlog("clicks", "visits") > 0 || len(broker.Messages("visits")) < day {
				time.Sleep(5 * time.Millisecond)
			}
			stop()
		}()
		err := pulsarx.RunStateful(running, client, pulsarx.String(),
			pulsarx.StatefulOptions{Topic: "clicks", Subscription: "visits", Interval: 10 * time.Millisecond}, factory,
			pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: "visits"}}, store)
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, m := range broker.Messages("visits") {
		fmt.Println(string(m.Value))
	}
	err = pulsarx.ReplayStateful(ctx, client, pulsarx.String(), pulsarx.ReplayOptions{Topics: []string{"clicks"}}, factory,
		func(v string) error { fmt.Println("replayed:", v); return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// ann has seen 1 pages
	// ann has seen 2 pages
	// replayed: ann has seen 1 pages
	// replayed: ann has seen 2 pages
}

// A checkpoint that was saved on one machine and is claimed on another: the first one cannot save any more. RunStateful does all this by
// itself.
func ExampleTopicStore() {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	ctx := context.Background()
	machine := func() (*pulsarx.Client, *pulsarx.TopicStore) {
		client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL(), AdminURL: broker.AdminURL()})
		if err != nil {
			log.Fatal(err)
		}
		store, err := pulsarx.NewTopicStore(client, pulsarx.TopicStoreOptions{Topic: "checkpoints"})
		if err != nil {
			log.Fatal(err)
		}
		return client, store
	}
	write := func(state string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, state)
			return err
		}
	}
	one, first := machine()
	defer one.Close(ctx)
	another, second := machine()
	defer another.Close(ctx)
	_, generation, err := first.Claim(ctx, "visits/clicks-partition-0")
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Save(ctx, "visits/clicks-partition-0", generation, write("ann has seen 7 pages")); err != nil {
		log.Fatal(err)
	}
	r, _, err := second.Claim(ctx, "visits/clicks-partition-0")
	if err != nil {
		log.Fatal(err)
	}
	state, err := io.ReadAll(r)
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", state)
	err = first.Save(ctx, "visits/clicks-partition-0", generation, write("ann has seen 8 pages"))
	fmt.Println(errors.Is(err, pulsarx.ErrFenced))
	// Output:
	// ann has seen 7 pages
	// true
}
