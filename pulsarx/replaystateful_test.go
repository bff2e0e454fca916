package pulsarx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// TestReplayStatefulErrors: a replay passes over what a run sends to the dead letters, and its results are the same; a panic, another
// error and a decoder's that the options refuse end it.
func TestReplayStatefulErrors(t *testing.T) {
	for name, connect := range servers {
		t.Run(name, func(t *testing.T) {
			c := connect(t).client(t)
			namespace := deduplicating(t, c)
			in, out := namespace+"in", namespace+"out"
			sendAll(t, keyed(t, c, in), keyedValues(30, 3))
			decoder := pulsarx.DecodeFunc(func(r pulsarx.Raw) (string, error) {
				if strings.HasSuffix(string(r.Value), "7") {
					return "", errors.New("unreadable")
				}
				return string(r.Value), nil
			})
			failing := func(fail func(string) error) func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
				return func(pulsarx.Partition) (pulsarx.Processor[string, string], error) {
					return &counts{seen: map[string]int{}, fail: fail}, nil
				}
			}
			permanent := failing(func(v string) error {
				if strings.HasSuffix(v, "4") {
					return fmt.Errorf("no: %w", pulsarx.Permanent(errors.New("never")))
				}
				return nil
			})
			replay := func(o pulsarx.ReplayOptions, p func(pulsarx.Partition) (pulsarx.Processor[string, string], error)) ([]string, error) {
				o.Topics = []string{in}
				var all []string
				err := pulsarx.ReplayStateful(t.Context(), c, decoder, o, p, func(v string) error { all = append(all, v); return nil })
				return all, err
			}
			replayed, err := replay(pulsarx.ReplayOptions{}, permanent)
			if err != nil || len(replayed) < 24 {
				t.Fatal(replayed, err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- pulsarx.RunStateful(ctx, c, decoder, pulsarx.StatefulOptions{Topic: in, Subscription: "counts"}, permanent,
					pulsarx.Output[string]{Codec: pulsarx.String(), Producer: pulsarx.ProducerOptions[string]{Topic: out, Key: keyOf}}, dirStore(t))
			}()
			want := map[string][]string{}
			for _, v := range replayed {
				want[keyOf(v)] = append(want[keyOf(v)], v)
			}
			equalOutputs(t, c, out, want)
			if letters := outputs(t, c, in+"-counts-DLQ"); count(letters) != 6 {
				t.Errorf("dead letters: %v", letters)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			refused := errors.New("refused")
			for what, run := range map[string]func() ([]string, error){
				"poison": func() ([]string, error) {
					return replay(pulsarx.ReplayOptions{}, failing(func(string) error { panic("poison") }))
				},
				"other": func() ([]string, error) {
					return replay(pulsarx.ReplayOptions{}, failing(func(string) error { return errors.New("other") }))
				},
				"refused": func() ([]string, error) {
					return replay(pulsarx.ReplayOptions{OnDecodeError: func(pulsarx.Raw, error) error { return refused }}, permanent)
				},
			} {
				if _, err := run(); err == nil || !strings.Contains(err.Error(), what) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
