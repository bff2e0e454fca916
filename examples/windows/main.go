// Windows turns clicks that come out of order into features, through tumbling, sliding and session windows with checkpoints, shows
// them while they come, and computes them once more from the topic's history: the results must be equal. README.md says more.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func main() {
	url := flag.String("url", os.Getenv("PULSAR_URL"), "a real Pulsar, pulsar://host:6650; an in-process one by default")
	admin := flag.String("admin", os.Getenv("PULSAR_ADMIN_URL"), "its admin interface, http://host:8080")
	speed := flag.Float64("speed", 10, "how many times as fast as they happened clicks are sent; 0 does not wait")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "windows: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if *speed < 0 {
		fmt.Fprintf(os.Stderr, "windows: -speed is %v\n", *speed)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *url, *admin, *speed)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "windows:", err)
		os.Exit(1)
	}
}

// run tells the story on the broker at url, or on one of its own.
func run(ctx context.Context, out io.Writer, url, admin string, speed float64) (err error) {
	if url == "" {
		broker, err := pulsartest.NewBroker(pulsartest.Options{})
		if err != nil {
			return err
		}
		defer broker.Close()
		url, admin = broker.URL(), broker.AdminURL()
	}
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: url, AdminURL: admin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	s, err := newShop(ctx, client)
	if err != nil {
		return err
	}
	b := newBoard(out)
	if err := s.online(ctx, b, speed); err != nil {
		return err
	}
	return s.compare(ctx, out)
}

// shop is a namespace with the topics of the story.
type shop struct {
	client           *pulsarx.Client
	clicks, features string
	store            pulsarx.CheckpointStore
}

// newShop makes them: clicks in three partitions, and features in a namespace that drops what it already has, so that a feature that
// is sent twice is there once.
func newShop(ctx context.Context, client *pulsarx.Client) (*shop, error) {
	namespace := fmt.Sprintf("public/windows-%d", time.Now().UnixNano())
	s := &shop{client: client, clicks: "persistent://" + namespace + "/clicks", features: "persistent://" + namespace + "/features"}
	for _, call := range []struct {
		method, path string
		body         any
	}{
		{"PUT", "/namespaces/" + namespace, nil},
		{"POST", "/namespaces/" + namespace + "/deduplication", true},
		// Without it, Pulsar deletes messages that every subscription has had, and there is nothing to replay.
		{"POST", "/namespaces/" + namespace + "/retention", map[string]int{"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}},
		{"PUT", "/persistent/" + namespace + "/clicks/partitions", partitions},
	} {
		if err := client.Admin(ctx, call.method, call.path, call.body, nil); err != nil {
			return nil, err
		}
	}
	var err error
	s.store, err = pulsarx.NewTopicStore(client, pulsarx.TopicStoreOptions{Topic: "persistent://" + namespace + "/checkpoints"})
	return s, err
}

// online sends the clicks while the jobs work on them, in two shifts: half way the jobs are stopped, as by a new release, and go on
// from their checkpoints.
func (s *shop) online(ctx context.Context, b *board, speed float64) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var following sync.WaitGroup
	defer following.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	following.Go(func() {
		if err := s.follow(watching, b); err != nil {
			fail(err)
		}
	})
	all := arrivals()
	for _, shift := range [][]arrival{all[:len(all)/2], all[len(all)/2:]} {
		stop := s.work(ctx, fail)
		err := send(ctx, s.client, s.clicks, shift, speed)
		if err == nil && shift[len(shift)-1].At.Equal(endOfDay) {
			err = b.wait(ctx)
		}
		stop()
		if err != nil {
			return err
		}
	}
	stop()
	following.Wait()
	return context.Cause(ctx)
}

// work runs the jobs until it is told to stop. In production each process of a service runs them, and the broker spreads the
// partitions.
func (s *shop) work(ctx context.Context, fail context.CancelCauseFunc) (stop func()) {
	working, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for _, j := range jobs {
		wait.Go(func() {
			err := pulsarx.RunStateful(working, s.client, pulsarx.Avro[Click](),
				pulsarx.StatefulOptions{Topic: s.clicks, Subscription: j.name, Interval: time.Second},
				j.features,
				pulsarx.Output[Feature]{Codec: pulsarx.Avro[Feature](), Producer: pulsarx.ProducerOptions[Feature]{
					Topic: s.features, Key: func(f Feature) string { return f.User }, EventTime: func(f Feature) time.Time { return f.End },
				}},
				s.store)
			if err != nil {
				fail(fmt.Errorf("%s windows: %w", j.name, err))
			}
		})
	}
	return func() {
		cancel()
		wait.Wait()
	}
}

// follow shows features on the board.
func (s *shop) follow(ctx context.Context, b *board) error {
	consumer, err := pulsarx.NewConsumer(ctx, s.client, pulsarx.Avro[Feature](), pulsarx.ConsumerOptions{
		Topics: []string{s.features}, Subscription: "board",
	})
	if err != nil {
		return err
	}
	err = consumer.Run(ctx, pulsarx.Values(func(_ context.Context, batch []Feature) error { return b.show(batch) }))
	return errors.Join(err, consumer.Close(context.WithoutCancel(ctx)))
}

// source is a partition's windows of one job, whose features have an order.
type source struct {
	job       string
	partition int
}

// history are features by source, encoded, so that equal means equal to the bit.
type history map[source][][]byte

func (h history) add(f Feature) error {
	text, err := pulsarx.Avro[Feature]().Encode(nil, f)
	at := source{f.Job, f.Partition}
	h[at] = append(h[at], text)
	return err
}

// compare reads what was published, computes it once more from the clicks' topic, and compares.
func (s *shop) compare(ctx context.Context, out io.Writer) error {
	published, replayed := history{}, history{}
	err := pulsarx.Replay(ctx, s.client, pulsarx.Avro[Feature](), pulsarx.ReplayOptions{Topics: []string{s.features}},
		pulsarx.Values(func(_ context.Context, batch []Feature) error {
			for _, f := range batch {
				if err := published.add(f); err != nil {
					return err
				}
			}
			return nil
		}))
	if err != nil {
		return err
	}
	for _, j := range jobs {
		err := pulsarx.ReplayStateful(ctx, s.client, pulsarx.Avro[Click](), pulsarx.ReplayOptions{Topics: []string{s.clicks}},
			j.features, replayed.add)
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "\nREPLAY of the clicks' topic, by the same code")
	differences := 0
	for _, j := range jobs {
		for p := range partitions {
			at := source{j.name, p}
			verdict := "equal"
			if !equal(published[at], replayed[at]) {
				verdict = "DIFFERENT"
				differences++
			}
			fmt.Fprintf(out, "  %-8s  partition %d  %4d published  %4d replayed  %s\n", j.name, p, len(published[at]), len(replayed[at]), verdict)
		}
	}
	if differences > 0 {
		return fmt.Errorf("the replay differs in %d of %d", differences, len(jobs)*partitions)
	}
	return nil
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
