package pulsarx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

// collect runs a consumer that records what it handles.
func collect(t *testing.T, c *pulsarx.Client, o pulsarx.ConsumerOptions) (*record, running) {
	t.Helper()
	seen := &record{}
	return seen, run(t, c, pulsarx.String(), o, func(_ context.Context, batch []pulsarx.Message[string]) error {
		for _, m := range batch {
			seen.add(m.Value)
		}
		return nil
	})
}

func sorted(values []string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// TestTopicPattern: the topics that match, those that come later, and neither system topics nor the subscription's dead letters.
func TestTopicPattern(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, prefix := s.client(t), topic(t)
			for _, name := range []string{"-a", "-b", "-c", "-other", "-a-s-DLQ"} {
				send(t, keyed(t, c, prefix+name), "k:"+name)
			}
			local := strings.TrimPrefix(prefix, "persistent://public/default/")
			seen, r := collect(t, c, pulsarx.ConsumerOptions{
				TopicPattern: "persistent://public/default/" + local + "-[a-z](-s-DLQ)?", Subscription: "s", Discovery: 200 * time.Millisecond,
			})
			eventually(t, "three topics", func() bool { return len(sorted(seen.all())) >= 3 })
			send(t, keyed(t, c, prefix+"-d"), "k:-d")
			eventually(t, "the new topic", func() bool { return slices.Contains(seen.all(), "k:-d") })
			r.stop()
			if got := sorted(seen.all()); !slices.Equal(got, []string{"k:-a", "k:-b", "k:-c", "k:-d"}) {
				t.Errorf("handled %v", got)
			}
		})
	}
}

func TestTopicPatternErrors(t *testing.T) {
	c := inProcess(t).client(t)
	for _, pattern := range []string{"a(", "persistent://public/a", "kafka://public/default/a", "public/.*/a", "persistent://public/default/"} {
		_, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{TopicPattern: pattern, Subscription: "s"})
		if err == nil || !strings.Contains(err.Error(), "TopicPattern") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	_, err := pulsarx.NewConsumer(t.Context(), c, pulsarx.String(), pulsarx.ConsumerOptions{
		TopicPattern: "a.*", Topics: []string{"b"}, Subscription: "s", InitialPosition: 7, ReadCompacted: true, Discovery: -1, PriorityLevel: -1,
	})
	for _, want := range []string{"exclude", "InitialPosition", "ReadCompacted", "Discovery", "PriorityLevel"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	// Nothing matches yet: that is no error.
	seen, _ := collect(t, c, pulsarx.ConsumerOptions{TopicPattern: "later-.*", Subscription: "s", Discovery: 50 * time.Millisecond})
	send(t, keyed(t, c, "later-1"), "k:1")
	eventually(t, "the message", func() bool { return seen.len() == 1 })
}

func TestSeveralTopics(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, first, second := s.client(t), topic(t)+"-1", topic(t)+"-2"
			send(t, keyed(t, c, first), "k:1")
			send(t, keyed(t, c, second), "k:2")
			third := topic(t) + "-3"
			setPartitions(t, s, http.MethodPut, third, 2)
			send(t, keyed(t, c, third+"-partition-1"), "k:3", "k:4")
			seen, r := collect(t, c, pulsarx.ConsumerOptions{
				Topics: []string{first, second, first, third + "-partition-1", third}, Subscription: "s", Type: pulsarx.Exclusive,
			})
			eventually(t, "all", func() bool { return seen.len() == 4 })
			r.stop()
			if n := leftovers(t, c, third, "s"); n != 0 || seen.len() != 4 {
				t.Errorf("%v, %d come again", seen.all(), n)
			}
		})
	}
}

// TestInitialPosition: a subscription that begins with what is sent next; one that is there goes on where it was.
func TestInitialPosition(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			p := keyed(t, c, topic)
			send(t, p, "k:before")
			options := pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", InitialPosition: pulsarx.FromLatest}
			seen, r := collect(t, c, options)
			send(t, p, "k:after")
			eventually(t, "the message", func() bool { return seen.len() > 0 })
			r.stop()
			send(t, p, "k:meanwhile")
			again, r := collect(t, c, options)
			eventually(t, "the message", func() bool { return again.len() > 0 })
			r.stop()
			if got := append(seen.all(), again.all()...); !slices.Equal(got, []string{"k:after", "k:meanwhile"}) {
				t.Errorf("handled %v", got)
			}
		})
	}
}

// TestSubscriptionOptions: what the broker shows of them.
func TestSubscriptionOptions(t *testing.T) {
	s := realPulsar(t)
	c, topic := s.client(t), topic(t)
	send(t, keyed(t, c, topic), "k:1")
	seen, _ := collect(t, c, pulsarx.ConsumerOptions{
		Topics: []string{topic}, Subscription: "s", Type: pulsarx.Failover, Name: "me", Properties: map[string]string{"a": "b"},
		SubscriptionProperties: map[string]string{"c": "d"}, PriorityLevel: 3, ReadCompacted: true, Replicated: true,
	})
	eventually(t, "the message", func() bool { return seen.len() == 1 })
	var stats struct {
		Subscriptions map[string]struct {
			Replicated             bool              `json:"isReplicated"`
			SubscriptionProperties map[string]string `json:"subscriptionProperties"`
			Consumers              []struct {
				Name     string            `json:"consumerName"`
				Metadata map[string]string `json:"metadata"`
			} `json:"consumers"`
		} `json:"subscriptions"`
	}
	getJSON(t, s.admin+"/admin/v2/"+strings.Replace(topic, "://", "/", 1)+"/stats", &stats)
	got := stats.Subscriptions["s"]
	if !got.Replicated || got.SubscriptionProperties["c"] != "d" || len(got.Consumers) != 1 || got.Consumers[0].Name != "me" ||
		got.Consumers[0].Metadata["a"] != "b" {
		t.Errorf("%+v", stats)
	}
}

// TestPartitionGrowth: a new partition that cannot be subscribed to does not stop the others, and is consumed from its first message
// when it can.
func TestPartitionGrowth(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			setPartitions(t, s, http.MethodPut, topic, 2)
			remove := func() {}
			if s.broker != nil {
				remove = s.broker.Inject(pulsartest.Fault{Command: "SUBSCRIBE", Topic: topic + "-partition-3", Error: "ServiceNotReady"})
			}
			var handled [4]atomic.Int64
			run(t, c, pulsarx.String(), pulsarx.ConsumerOptions{Topics: []string{topic}, Subscription: "s", Discovery: 50 * time.Millisecond},
				func(_ context.Context, batch []pulsarx.Message[string]) error {
					for _, m := range batch {
						handled[m.Partition].Add(1)
					}
					return nil
				})
			round := func(partitions ...int) {
				t.Helper()
				for _, i := range partitions {
					before := handled[i].Load()
					send(t, keyed(t, c, topic+"-partition-"+strconv.Itoa(i)), "k:1")
					eventually(t, fmt.Sprintf("a message of partition %d", i), func() bool { return handled[i].Load() > before })
				}
			}
			round(0, 1)
			setPartitions(t, s, http.MethodPost, topic, 4)
			round(0, 1, 2)
			if s.broker != nil {
				send(t, keyed(t, c, topic+"-partition-3"), "k:1") // waits for its subscription, which begins with it
				round(0, 1, 2)
				if handled[3].Load() > 0 {
					t.Error("the refused partition is consumed")
				}
				remove()
				eventually(t, "the fourth partition", func() bool { return handled[3].Load() == 1 })
			}
			round(0, 1, 2, 3)
		})
	}
}

// TestPatternPartitions: a partitioned topic of a pattern is one topic.
func TestPatternPartitions(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			c, topic := s.client(t), topic(t)
			setPartitions(t, s, http.MethodPut, topic, 3)
			p := keyed(t, c, topic)
			var values []string
			for i := range 30 {
				values = append(values, fmt.Sprintf("%d:%02d", i, i))
			}
			sendAll(t, p, values)
			seen, r := collect(t, c, pulsarx.ConsumerOptions{TopicPattern: strings.TrimPrefix(topic, "persistent://public/default/"), Subscription: "s"})
			eventually(t, "all", func() bool { return seen.len() >= 30 })
			r.stop()
			if len(sorted(seen.all())) != 30 || seen.len() != 30 {
				t.Errorf("handled %v", seen.all())
			}
		})
	}
}

func setPartitions(t *testing.T, s server, method, topic string, n int) {
	t.Helper()
	url := s.admin + "/admin/v2/" + strings.Replace(topic, "://", "/", 1) + "/partitions"
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(strconv.Itoa(n)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = true // or it might meet a server that closes an idle connection
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatal(method, url, answer.Status)
	}
}

func getJSON(t *testing.T, url string, v any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
}
