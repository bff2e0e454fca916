package spill_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/window"
	"github.com/tidemark-go/tidemark/window/aggregate"
	"github.com/tidemark-go/tidemark/window/spill"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "spill")
	d, err := spill.Open(folder, spill.Options{Buffer: 1 << 20, Cache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	state := func(i, round int) []byte { return bytes.Repeat([]byte{byte(i), byte(round)}, 100+i%700) }
	for round := range 3 {
		for i := range 5000 {
			if err := d.Put(uint64(i), state(i, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 5000 {
		got, err := d.Get(uint64(i), []byte("x"))
		if err != nil || string(got) != "x"+string(state(i, 2)) {
			t.Fatalf("%d: %d bytes, %v", i, len(got), err)
		}
	}
	if _, err := d.Get(5000, nil); err == nil {
		t.Error("what is not there is no error")
	}
	if d.Bytes() == 0 {
		t.Error("nothing is on disk")
	}
	if _, err := spill.Open(folder, spill.Options{}); err == nil {
		t.Error("two have one folder")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := spill.Open(folder, spill.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Get(1, nil); err == nil {
		t.Error("the folder was not emptied")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDiskBuffer: what is replaced in the buffer, comes to the disk and back, or is larger than the buffer is what was put last.
func TestDiskBuffer(t *testing.T) {
	for _, ids := range []int{1, 10, 100, 1000} {
		d, err := spill.Open(t.TempDir(), spill.Options{Buffer: 16 << 10})
		if err != nil {
			t.Fatal(err)
		}
		last := map[int][]byte{}
		for i := range 5000 {
			id, size := i*i%ids, i%90
			if i%1000 == 0 {
				size = 40_000
			}
			last[id] = bytes.Repeat([]byte{byte(i)}, size)
			if err := d.Put(uint64(id), last[id]); err != nil {
				t.Fatal(err)
			}
			id = i % ids
			if want, ok := last[id]; ok {
				if got, err := d.Get(uint64(id), nil); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d of %d: %d bytes, want %d, %v", id, ids, len(got), len(want), err)
				}
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForeignFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := spill.Open(folder, spill.Options{}); !errors.Is(err, spill.ErrFolder) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "letter.txt")); err != nil {
		t.Error(err)
	}
	if _, err := spill.Open(t.TempDir(), spill.Options{Cache: -1}); err == nil {
		t.Error("a negative cache is no error")
	}
	if _, err := spill.Open(t.TempDir(), spill.Options{Buffer: 2 << 30}); err == nil {
		t.Error("a buffer of 2 GiB is no error")
	}
}

// Windows of an hour for many users, of whom two are in memory.
func ExampleOpen() {
	folder, _ := os.MkdirTemp("", "spill")
	defer func() { _ = os.RemoveAll(folder) }()
	disk, err := spill.Open(folder, spill.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = disk.Close() }()
	op, _ := window.New(func(user string) string { return user }, window.Tumbling(time.Hour), aggregate.Count[string](),
		window.Options{Spill: disk, MaxResident: 2})
	emit := func(r window.Result[string, int64]) { fmt.Println(r.Key, r.Value) }
	for i, user := range []string{"ann", "bob", "cid", "dan", "ann", "cid", "ann"} {
		if _, err := op.Process(0, window.Timestamp(i), user, emit); err != nil {
			fmt.Println(err)
		}
	}
	op.Finish(emit)
	fmt.Println(op.Err())
	// Output:
	// ann 3
	// bob 1
	// cid 2
	// dan 1
	// <nil>
}
