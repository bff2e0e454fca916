package pulsarx

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestLookedUpOnce: those who want a schema at the same time wait for one look-up.
func TestLookedUpOnce(t *testing.T) {
	l := newSchemaLookup(ClientOptions{})
	var asked atomic.Int32
	release := make(chan struct{})
	l.fetch = func(context.Context, string, []byte) (Schema, error) {
		asked.Add(1)
		<-release
		return Schema{Type: "STRING"}, nil
	}
	var waiting, all sync.WaitGroup
	for range 8 {
		waiting.Add(1)
		all.Go(func() {
			_, err := l.get("t", []byte{1})
			waiting.Done()
			if !errors.Is(err, errSchemaPending) {
				t.Errorf("without an answer: %v", err)
			}
			for errors.Is(err, errSchemaPending) {
				_, err = l.get("t", []byte{1})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	close(release)
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestMadeUpVersions: messages that name versions which no registry has take a bounded memory, and forget no schema that there is.
func TestMadeUpVersions(t *testing.T) {
	const known = 50
	asked := make(map[string]int)
	l := &schemaLookup{closing: make(chan struct{}), entries: map[schemaKey]*schemaEntry{}}
	l.fetch = func(_ context.Context, _ string, version []byte) (Schema, error) {
		asked[string(version)]++
		if binary.BigEndian.Uint64(version) < known {
			return Schema{Type: "STRING"}, nil
		}
		return Schema{}, Permanent(errors.New("no such schema"))
	}
	answered := func(n int) bool {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			s, err := l.get("t", binary.BigEndian.AppendUint64(nil, uint64(n)))
			if !errors.Is(err, errSchemaPending) {
				return (err == nil) == (n < known) && (s.Type == "STRING") == (n < known)
			}
		}
		return false
	}
	for n := range maxFailedSchemas + 1000 {
		if !answered(n) || !answered(n%known) {
			t.Fatalf("version %d has another answer", n)
		}
	}
	if len(l.entries) > maxFailedSchemas+known {
		t.Errorf("%d look-ups are kept", len(l.entries))
	}
	for n := range known {
		if calls := asked[string(binary.BigEndian.AppendUint64(nil, uint64(n)))]; calls != 1 {
			t.Errorf("version %d was asked for %d times", n, calls)
		}
	}
}
