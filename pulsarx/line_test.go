package pulsarx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// adminPath is the path of a persistent topic.
func adminPath(topic, rest string) string {
	return "/persistent/" + strings.TrimPrefix(topic, "persistent://") + rest
}

// TestTerminated: what is sent to a terminated topic fails with that name, long before the timeout, and so does what comes later.
func TestTerminated(t *testing.T) {
	t.Parallel()
	s, topic := realPulsar(t), topic(t)
	var log record
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, AdminURL: s.admin, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(timeout(t, 60*time.Second)) })
	p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, SendTimeout: time.Minute})
	if _, err := p.Send(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin(t.Context(), http.MethodPost, adminPath(topic, "/terminate"), nil, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client to hear of it", func() bool { return strings.Contains(strings.Join(log.all(), ""), "Topic was terminated") })
	time.Sleep(time.Second) // in which it closes its producer, which must not race with a message
	results := make(chan error, 10)
	for range 10 {
		p.SendAsync(t.Context(), "after", func(_ pulsarx.MessageID, err error) { results <- err })
	}
	for range 10 {
		if err := <-results; !errors.Is(err, pulsarx.ErrTopicTerminated) {
			t.Errorf("SendAsync: %v", err)
		}
	}
	if _, err := p.Send(t.Context(), "later"); !errors.Is(err, pulsarx.ErrTopicTerminated) {
		t.Errorf("Send: %v", err)
	}
	if _, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic}); !errors.Is(err, pulsarx.ErrTopicTerminated) {
		t.Errorf("NewProducer: %v", err)
	}
}

// TestRefusedMessage: a message that the topic's own limit refuses makes the client forget the producer; it fails, and what is sent
// later arrives.
func TestRefusedMessage(t *testing.T) {
	t.Parallel()
	refuse := map[string]func(*testing.T, server, *pulsarx.Client, string){
		"pulsartest": func(_ *testing.T, s server, _ *pulsarx.Client, topic string) {
			s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Key: "large", Error: "NotAllowedError"})
		},
		"pulsar": func(t *testing.T, _ server, c *pulsarx.Client, topic string) {
			t.Helper()
			for { // the policies of a namespace are there some time after its first topic
				err := c.Admin(t.Context(), http.MethodPost, adminPath(topic, "/maxMessageSize"), 2000, nil)
				if err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			eventually(t, "the policy", func() bool {
				var size int
				return c.Admin(t.Context(), http.MethodGet, adminPath(topic, "/maxMessageSize"), nil, &size) == nil && size == 2000
			})
		},
	}
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{
				Topic: topic, Name: "refused", SendTimeout: time.Second, Batching: pulsarx.Batching{Compression: pulsarx.NoCompression},
			})
			eventually(t, "the topic to take a message", func() bool {
				_, err := p.Send(t.Context(), "before", pulsarx.Key("small"))
				return err == nil
			})
			refuse[name](t, s, c, topic)
			eventually(t, "a refusal", func() bool { // a topic hears of its policies late
				_, err := p.Send(t.Context(), strings.Repeat("x", 5000), pulsarx.Key("large"))
				if err != nil && !errors.Is(err, pulsarx.ErrSendTimeout) {
					t.Fatalf("the large message: %v", err)
				}
				return err != nil
			})
			eventually(t, "a message to arrive", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := p.Send(ctx, "after", pulsarx.Key("small"))
				return err == nil
			})
		})
	}
}

// TestTooLarge: messages at and beyond the broker's limit fail by themselves, at once, and take no neighbours along.
func TestTooLarge(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			c, topic := connect(t).client(t), topic(t)
			p := producer(t, c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{
				Topic: topic, Batching: pulsarx.Batching{MaxDelay: 50 * time.Millisecond, Compression: pulsarx.NoCompression},
			})
			var tooLarge, sent, other atomic.Int64
			send := func(n int, key string) {
				p.SendAsync(t.Context(), make([]byte, n), func(_ pulsarx.MessageID, err error) {
					switch {
					case err == nil:
						sent.Add(1)
					case errors.Is(err, pulsarx.ErrMessageTooLarge):
						tooLarge.Add(1)
					default:
						other.Add(1)
						t.Errorf("%d bytes: %v", n, err)
					}
				}, pulsarx.Key(key))
			}
			sizes := []int{6 << 20, 5 << 20, 5<<20 - 1, 5<<20 - 100, 5<<20 - 400, 5<<20 - 700, 4 << 20}
			for i, n := range sizes {
				send(10, fmt.Sprint("before", i))
				send(n, fmt.Sprint("large", i))
				send(10, fmt.Sprint("after", i))
			}
			if err := p.Flush(timeout(t, 60*time.Second)); err != nil && !errors.Is(err, pulsarx.ErrMessageTooLarge) {
				t.Error(err)
			}
			if tooLarge.Load() != 5 || sent.Load() != int64(3*len(sizes)-5) {
				t.Errorf("%d sent, %d too large, %d failed", sent.Load(), tooLarge.Load(), other.Load())
			}
		})
	}
}

// TestClientClosed: what is on its way while the client is closed fails as closed, and so does what comes later.
func TestClientClosed(t *testing.T) {
	t.Parallel()
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Drop: true})
	p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error, 20)
	for range 20 {
		p.SendAsync(t.Context(), "x", func(_ pulsarx.MessageID, err error) { outcomes <- err })
	}
	if err := c.Close(timeout(t, 60*time.Second)); err != nil {
		t.Error(err)
	}
	for range 20 {
		if err := <-outcomes; !errors.Is(err, pulsarx.ErrClosed) {
			t.Errorf("SendAsync: %v", err)
		}
	}
	if _, err := p.Send(t.Context(), "later"); !errors.Is(err, pulsarx.ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	if err := p.Close(timeout(t, 60*time.Second)); err != nil && !errors.Is(err, pulsarx.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
}

func TestQueueFull(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Drop: true})
	open := func(failWhenFull bool) *pulsarx.Producer[string] {
		p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.String(), pulsarx.ProducerOptions[string]{
			Topic: topic, MaxPending: 5, FailWhenFull: failWhenFull,
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			p.SendAsync(t.Context(), "x", nil)
		}
		return p
	}
	fails := open(true)
	if _, err := fails.Send(t.Context(), "x"); !errors.Is(err, pulsarx.ErrQueueFull) {
		t.Errorf("Send: %v", err)
	}
	result := make(chan error, 1)
	fails.SendAsync(t.Context(), "x", func(_ pulsarx.MessageID, err error) { result <- err })
	if err := <-result; !errors.Is(err, pulsarx.ErrQueueFull) {
		t.Errorf("SendAsync: %v", err)
	}
	waits := open(false)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	waits.SendAsync(ctx, "x", func(_ pulsarx.MessageID, err error) { result <- err })
	if ctx.Err() == nil {
		t.Error("SendAsync has not waited for a place")
	}
	if err := <-result; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("SendAsync: %v", err)
	}
	go waits.SendAsync(t.Context(), "x", func(_ pulsarx.MessageID, err error) { result <- err })
	time.Sleep(20 * time.Millisecond)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, p := range []*pulsarx.Producer[string]{fails, waits} {
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
	}
	if err := <-result; !errors.Is(err, pulsarx.ErrClosed) {
		t.Errorf("SendAsync while Close: %v", err)
	}
}

// TestMemoryFull: where the client's memory is full, messages fail by choice as where the queue is.
func TestMemoryFull(t *testing.T) {
	s, topic := inProcess(t), topic(t)
	c, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: s.url, Pulsar: pulsar.ClientOptions{MemoryLimitBytes: 32 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(timeout(t, 60*time.Second))
	s.broker.Inject(pulsartest.Fault{Command: "SEND", Topic: topic, Drop: true})
	p, err := pulsarx.NewProducer(t.Context(), c, pulsarx.Bytes(), pulsarx.ProducerOptions[[]byte]{Topic: topic, FailWhenFull: true})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error, 100)
	for range cap(outcomes) {
		p.SendAsync(t.Context(), make([]byte, 1<<10), func(_ pulsarx.MessageID, err error) { outcomes <- err })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Close(ended)
	full, closed := 0, 0
	for range cap(outcomes) {
		switch err := <-outcomes; {
		case errors.Is(err, pulsarx.ErrQueueFull):
			full++
		case errors.Is(err, pulsarx.ErrClosed):
			closed++
		default:
			t.Error(err)
		}
	}
	if closed == 0 || closed > 40 {
		t.Errorf("%d messages were on their way, and %d failed", closed, full)
	}
}

// TestSlowCallback: a callback that does not return holds up neither messages nor other producers of the connection.
func TestSlowCallback(t *testing.T) {
	s := inProcess(t)
	c, topic := s.client(t), topic(t)
	slow := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic, MaxPending: 10})
	other := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
	called, release := make(chan struct{}), make(chan struct{})
	slow.SendAsync(t.Context(), "x", func(pulsarx.MessageID, error) {
		close(called)
		<-release
	})
	<-called
	defer close(release)
	for range 30 { // more than MaxPending
		slow.SendAsync(timeout(t, 60*time.Second), "y", nil)
	}
	for _, p := range []*pulsarx.Producer[string]{slow, other} {
		if _, err := p.Send(timeout(t, 60*time.Second), "z"); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "all messages", func() bool { return len(s.broker.Messages(topic)) == 33 })
}

// ownBytes is a codec of a user's that does not append, but returns what is the sender's.
type ownBytes struct{ pulsarx.BytesCodec }

func (ownBytes) Encode(_, v []byte) ([]byte, error) { return v, nil }

// TestReuse: nothing of a message is in a later one, whatever they have set and however long they are, and what a codec returns is left
// alone.
func TestReuse(t *testing.T) {
	t.Parallel()
	for name, connect := range servers {
		for codecName, codec := range map[string]pulsarx.Codec[[]byte]{"appends": pulsarx.Bytes(), "returns": ownBytes{}} {
			t.Run(name+" "+codecName, func(t *testing.T) {
				t.Parallel()
				testReuse(t, connect(t), codec)
			})
		}
	}
}

func testReuse(t *testing.T, s server, codec pulsarx.Codec[[]byte]) {
	t.Helper()
	type content struct {
		key, number string
		event       time.Time
		value       []byte
	}
	const senders, each = 3, 1000
	var sent [senders][each]content
	c, topic := s.client(t), topic(t)
	p := producer(t, c, codec, pulsarx.ProducerOptions[[]byte]{
		Topic: topic, MaxPending: 50, Batching: pulsarx.Batching{MaxMessages: 20, MaxDelay: time.Millisecond},
	})
	var sending sync.WaitGroup
	for sender := range senders {
		random := rand.New(rand.NewPCG(uint64(sender), 0))
		sending.Go(func() {
			for i := range each {
				m := &sent[sender][i]
				m.value = fmt.Appendf(nil, "%d %d ", sender, i)
				for n := random.IntN(3000); len(m.value) < n; {
					m.value = append(m.value, byte(random.Uint32()))
				}
				var options []pulsarx.SendOption
				if random.IntN(2) == 0 {
					m.key = fmt.Sprintf("key %d", i)
					options = append(options, pulsarx.Key(m.key))
				}
				if random.IntN(3) == 0 {
					m.number = fmt.Sprint(i)
					options = append(options, pulsarx.Property("number", m.number))
				}
				if random.IntN(3) == 0 {
					m.event = time.UnixMilli(int64(1 + i)).UTC()
					options = append(options, pulsarx.EventTime(m.event))
				}
				switch random.IntN(20) {
				case 0: // is refused
					p.SendAsync(t.Context(), []byte("early"), nil, pulsarx.EventTime(time.UnixMilli(-1)))
				case 1:
					if _, err := p.Send(t.Context(), m.value, options...); err != nil {
						t.Error(err)
					}
					continue
				}
				p.SendAsync(t.Context(), m.value, func(_ pulsarx.MessageID, err error) {
					if err != nil {
						t.Error(err)
					}
				}, options...)
			}
		})
	}
	sending.Wait()
	_ = p.Flush(t.Context()) // whose error is that of the refused ones
	var got [senders][each]int
	readAll(t, c, pulsarx.Bytes(), topic, func(m pulsarx.Message[[]byte]) {
		var sender, i int
		if _, err := fmt.Sscanf(string(m.Value), "%d %d ", &sender, &i); err != nil {
			t.Fatal(err)
		}
		got[sender][i]++
		want := sent[sender][i]
		if !bytes.Equal(m.Value, want.value) || m.Key != want.key || m.Properties["number"] != want.number || !m.EventTime.Equal(want.event) {
			t.Fatalf("message %d of sender %d: %d bytes %q %q %v, not %d %q %q %v", i, sender,
				len(m.Value), m.Key, m.Properties, m.EventTime, len(want.value), want.key, want.number, want.event)
		}
	})
	for sender := range senders {
		for i, n := range got[sender] {
			if n != 1 {
				t.Fatalf("message %d of sender %d came %d times", i, sender, n)
			}
		}
	}
}

// TestFlush: when Flush returns, all callbacks have.
func TestFlush(t *testing.T) {
	c, topic := inProcess(t).client(t), topic(t)
	var running sync.WaitGroup
	for range 4 {
		p := producer(t, c, pulsarx.String(), pulsarx.ProducerOptions[string]{Topic: topic})
		running.Go(func() {
			for range 250 {
				var called atomic.Int32
				for range 4 {
					p.SendAsync(t.Context(), "v", func(pulsarx.MessageID, error) { called.Add(1) })
				}
				if err := p.Flush(t.Context()); err != nil || called.Load() != 4 {
					t.Errorf("Flush has returned %v after %d callbacks of 4", err, called.Load())
				}
			}
		})
	}
	running.Wait()
}

// TestOutcomes sends through random faults, from several goroutines, by all ways, to a close in good time or not: every message has one
// outcome, callbacks come one at a time, and what succeeded is in the topic. OUTCOMES_ROUNDS are the rounds, 4 by default.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	rounds := 4
	if text := os.Getenv("OUTCOMES_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			testOutcomes(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func testOutcomes(t *testing.T, random *rand.Rand) {
	t.Helper()
	s := partitioned(t, map[string]int{"persistent://public/default/outcomes": 1 + random.IntN(3)})
	const topic = "persistent://public/default/outcomes"
	// Either the client reconnects, or its producers are made anew and messages are sent alone: at the same time, the client has data
	// races between these.
	reconnects, sendTimeout := random.IntN(2) == 0, time.Second
	if reconnects {
		sendTimeout = time.Minute
	}
	p, err := pulsarx.NewProducer(t.Context(), s.client(t), pulsarx.String(), pulsarx.ProducerOptions[string]{
		Topic: topic, Key: keyOf, SendTimeout: sendTimeout, MaxPending: 1 + random.IntN(200),
		FailWhenFull: random.IntN(3) == 0, Batching: pulsarx.Batching{MaxMessages: 1 + random.IntN(30), MaxDelay: 5 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	const senders, each = 4, 100
	outcomes := make([]atomic.Int32, senders*each)
	succeeded := make([]atomic.Bool, senders*each)
	var calling atomic.Int32
	faults := make([]pulsartest.Fault, 6)
	for i := range faults {
		faults[i] = pulsartest.Fault{Command: "SEND", After: random.IntN(20), Count: 1}
		switch n := random.IntN(3); {
		case n == 0:
			faults[i].Delay = time.Duration(random.IntN(300)) * time.Millisecond
		case !reconnects:
			faults[i].Error = "NotAllowedError"
		case n == 1:
			faults[i].Error = "PersistenceError"
		case n == 2:
			faults[i].Disconnect = true
		}
		s.broker.Inject(faults[i])
	}
	var sending sync.WaitGroup
	for sender := range senders {
		mine := rand.New(rand.NewPCG(random.Uint64(), 1))
		sending.Go(func() {
			for i := range each {
				n := sender*each + i
				settle := func(id pulsarx.MessageID, err error) {
					if (id == nil) == (err == nil) {
						t.Errorf("message %d: %v %v", n, id, err)
					}
					outcomes[n].Add(1)
					succeeded[n].Store(err == nil)
				}
				ctx, cancel := context.WithCancel(t.Context())
				value, refused := fmt.Sprintf("k%d:%d", mine.IntN(5), n), false
				switch mine.IntN(30) {
				case 0:
					cancel()
				case 1:
					value, refused = value+"\xff", true // cannot be encoded
				case 2:
					value, refused = value+strings.Repeat("x", 6<<20), true
				case 3:
					time.AfterFunc(time.Duration(mine.IntN(20))*time.Millisecond, cancel)
				}
				switch way := mine.IntN(8); {
				case way == 0:
					settle(p.Send(ctx, value))
				case way == 1 && !reconnects:
					settle(p.Send(ctx, value, pulsarx.DeliverAfter(time.Millisecond)))
				case way == 2:
					_ = p.Flush(ctx)
					fallthrough
				default:
					p.SendAsync(ctx, value, func(id pulsarx.MessageID, err error) {
						if errors.Is(err, pulsarx.ErrClosed) || refused { // after Close, SendAsync calls it itself
							settle(id, err)
							return
						}
						if calling.Add(1) != 1 {
							t.Error("two callbacks at once")
						}
						settle(id, err)
						calling.Add(-1)
					})
				}
				_ = cancel // SendAsync's context is done with when it returns
				defer cancel()
			}
		})
	}
	if random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	} else {
		sending.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(1500))*time.Millisecond)
	defer cancel()
	_ = p.Close(ctx) // its error is as random as the faults
	sending.Wait()
	if err := p.Close(timeout(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
	stored := map[int]bool{}
	for _, m := range s.broker.Messages(topic) {
		_, number, _ := strings.Cut(string(m.Value), ":")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		stored[n] = true
	}
	for n := range outcomes {
		if got := outcomes[n].Load(); got != 1 {
			t.Errorf("message %d has %d outcomes", n, got)
		}
		if succeeded[n].Load() && !stored[n] {
			t.Errorf("message %d is lost", n)
		}
	}
}
