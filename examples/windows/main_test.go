package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestWindows tells the story on both brokers.
func TestWindows(t *testing.T) {
	for name, address := range map[string]func(*testing.T) (url, admin string){
		"in process": func(*testing.T) (string, string) { return "", "" },
		"pulsar": func(t *testing.T) (string, string) {
			t.Helper()
			return servicetest.Env(t, "PULSAR_URL"), servicetest.Env(t, "PULSAR_ADMIN_URL")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, admin := address(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var out bytes.Buffer
			if err := run(ctx, &out, url, admin, 0); err != nil {
				t.Fatalf("%v after\n%s", err, &out)
			}
			checkTumbling(t, out.String())
			if n := strings.Count(out.String(), "  equal\n"); n != len(jobs)*partitions {
				t.Errorf("%d are equal in\n%s", n, &out)
			}
		})
	}
}

var (
	resultLine = regexp.MustCompile(`(?m)^tumbling +(\S+ - \S+ +\S+) +(\d+) clicks? .*(on time|updated)$`)
	lateLine   = regexp.MustCompile(`(?m)^tumbling .*too late`)
)

// checkTumbling compares the windows with a count of the clicks themselves, of which each is in one window or late.
func checkTumbling(t *testing.T, out string) {
	t.Helper()
	got, late := map[string]int{}, len(lateLine.FindAllString(out, -1))
	for _, m := range resultLine.FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		got[m[1]] = max(got[m[1]], n) // an update has more than what it replaces
	}
	want, sent := map[string]int{}, 0
	for _, a := range arrivals() {
		if a.User == "" {
			continue
		}
		sent++
		from := a.At.Truncate(10 * time.Second)
		want[fmt.Sprintf("%s - %s  %s", clock(from), clock(from.Add(10*time.Second)), a.User)]++
	}
	sum := late
	for window, n := range got {
		sum += n
		if n > want[window] {
			t.Errorf("%s has %d clicks of %d", window, n, want[window])
		}
	}
	if sum != sent || late == 0 || late > sent/10 || !strings.Contains(out, "updated") {
		t.Errorf("%d clicks in windows and %d late ones of %d:\n%s", sum-late, late, sent, out)
	}
}

// TestDifference: what the replay does not say is found.
func TestDifference(t *testing.T) {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL(), AdminURL: broker.AdminURL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	s, err := newShop(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.online(t.Context(), newBoard(&out), 0); err != nil {
		t.Fatal(err)
	}
	producer, err := pulsarx.NewProducer(t.Context(), client, pulsarx.Avro[Feature](), pulsarx.ProducerOptions[Feature]{Topic: s.features})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close(t.Context())
	if _, err := producer.Send(t.Context(), Feature{Job: jobs[1].name, Kind: "on time", Partition: 2, User: "nobody"}); err != nil {
		t.Fatal(err)
	}
	err = s.compare(t.Context(), &out)
	if err == nil || err.Error() != "the replay differs in 1 of 9" {
		t.Errorf("a feature too many is %v", err)
	}
}

// TestTable: a table is drawn over the one before.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	b := newBoard(&out)
	b.live = true
	for i := range 8 {
		b.when = time.Time{}
		err := b.show([]Feature{
			{Job: "session", Kind: "on time", User: "ann", Start: start, End: start.Add(time.Second), Clicks: int64(i)},
			{Job: "session", Kind: late, User: "bob", Start: start},
			{Job: "session", Kind: watermark, End: start},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	tables := strings.Split(out.String(), "\x1b[J")
	last := tables[len(tables)-1]
	lines := len(jobs) * (1 + recentLines + lateLines)
	if len(tables) != 8 || strings.Count(last, "\n") != lines || !strings.HasSuffix(tables[6], fmt.Sprintf("\x1b[?7l\x1b[%dA", lines)) {
		t.Errorf("%d tables, the last one is\n%s", len(tables), last)
	}
	if !strings.Contains(last, "SESSION until 5 s without a click: complete up to 09:00:00; 8 results, 0 of them updates; 8 late clicks") ||
		!strings.Contains(last, " 7 clicks ") || strings.Contains(last, " 2 clicks ") || strings.Count(last, "bob") != lateLines {
		t.Errorf("the table is\n%s", last)
	}
}
