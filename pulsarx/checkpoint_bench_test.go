package pulsarx_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
)

const keyBytes = 64 // a key and its value in a snapshot

// manyKeys are a million, and fewer under the race detector, with which compressing takes twenty times as long.
func manyKeys() uint64 {
	if raceDetector {
		return 100_000
	}
	return 1_000_000
}

func manyBytes() float64 { return float64(manyKeys() * keyBytes) }

// manyRecord is what a snapshot has of a key. It does not compress.
func manyRecord(record []byte, key uint64) {
	for i, v := 0, key; i < keyBytes; i, v = i+8, v*0x9e3779b97f4a7c15+1 {
		binary.BigEndian.PutUint64(record[i:], v)
	}
}

// writeMany is a snapshot of a million keys, as a processor streams it. every is called now and then.
func writeMany(w io.Writer, every func()) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var record [keyBytes]byte
	for key := range manyKeys() {
		manyRecord(record[:], key)
		if _, err := out.Write(record[:]); err != nil {
			return err
		}
		if key%(manyKeys()/10) == 0 {
			every()
		}
	}
	return out.Flush()
}

// readMany reads it, and compares.
func readMany(r io.Reader, every func()) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var want, got [keyBytes]byte
	for key := range manyKeys() {
		if _, err := io.ReadFull(in, got[:]); err != nil {
			return err
		}
		if manyRecord(want[:], key); !bytes.Equal(got[:], want[:]) {
			return fmt.Errorf("key %d is another", key)
		}
		if key%(manyKeys()/10) == 0 {
			every()
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows: %w", err)
	}
	return nil
}

// manyStores are the stores with their defaults.
var manyStores = map[string]func(testing.TB) claimer{
	"folder": func(tb testing.TB) claimer {
		tb.Helper()
		return dirStore(tb)
	},
	"pulsartest": func(tb testing.TB) claimer {
		tb.Helper()
		return topicStore(tb, inProcess(tb).client(tb), pulsarx.TopicStoreOptions{})
	},
	"pulsar": func(tb testing.TB) claimer {
		tb.Helper()
		return topicStore(tb, realPulsar(tb).client(tb), pulsarx.TopicStoreOptions{})
	},
}

// saveAndRestore says how long each took.
func saveAndRestore(tb testing.TB, s claimer, every func()) (saving, restoring time.Duration) {
	tb.Helper()
	began := time.Now()
	if err := s.Save(tb.Context(), "many", 0, func(w io.Writer) error { return writeMany(w, every) }); err != nil {
		tb.Fatal(err)
	}
	saving = time.Since(began)
	began = time.Now()
	r, _, err := s.Load(tb.Context(), "many")
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(readMany(r, every), r.Close()); err != nil {
		tb.Fatal(err)
	}
	return saving, time.Since(began)
}

// TestCheckpointMemory: a checkpoint of a million keys is streamed: some chunks of it are in memory.
func TestCheckpointMemory(t *testing.T) {
	for name, connect := range manyStores {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			before, most := heap(), 0.0
			saving, restoring := saveAndRestore(t, s, func() { most = max(most, heap()-before) })
			t.Logf("%.1f MiB in memory, of a checkpoint of %.1f MiB; saved in %v, restored in %v",
				most, manyBytes()/(1<<20), saving, restoring)
			bound := 32.0 // MiB: some chunks, and what the client keeps of them
			if name == "pulsartest" {
				bound += manyBytes() / (1 << 20) // the broker has it in memory
			}
			if most > bound {
				t.Errorf("%.1f MiB are in memory", most)
			}
		})
	}
}

// BenchmarkCheckpoint is a million keys saved and restored, 64 bytes each, and then of one in a hundred of them appended, as an incremental
// checkpoint, instead of all of them saved again: on a real Pulsar 0.64 MB in 15 ms instead of 64 MB in 0.38 s.
func BenchmarkCheckpoint(b *testing.B) {
	for name, connect := range manyStores {
		b.Run(name, func(b *testing.B) {
			s := connect(b)
			var saving, restoring, appending time.Duration
			for b.Loop() {
				save, restore := saveAndRestore(b, s, func() {})
				saving, restoring = saving+save, restoring+restore
				began := time.Now()
				if err := s.(appender).Append(b.Context(), "many", 0, writeChanges); err != nil {
					b.Fatal(err)
				}
				appending += time.Since(began)
			}
			b.ReportMetric(saving.Seconds()/float64(b.N), "s/save")
			b.ReportMetric(restoring.Seconds()/float64(b.N), "s/restore")
			b.ReportMetric(appending.Seconds()/float64(b.N), "s/append")
			b.ReportMetric(manyBytes()/1e6, "MB")
			b.ReportMetric(manyBytes()/1e8, "MB-appended")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// writeChanges is one key in a hundred.
func writeChanges(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var record [keyBytes]byte
	for key := uint64(0); key < manyKeys(); key += 100 {
		manyRecord(record[:], key)
		if _, err := out.Write(record[:]); err != nil {
			return err
		}
	}
	return out.Flush()
}
