package pulsarx

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

const someOffset = "0000000000000001000000000000000200000003"

func checkpointOf(tb testing.TB, p progress, snapshot string) []byte {
	tb.Helper()
	var out bytes.Buffer
	err := writeCheckpoint(&out, p, func(w io.Writer) error {
		_, err := io.WriteString(w, snapshot)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// TestCheckpoint: what was written is read, also where the snapshot is not read to its end; what was cut off or changed anywhere is an
// error.
func TestCheckpoint(t *testing.T) {
	want := progress{Version: checkpointVersion, Offset: someOffset, Outputs: 7, Messages: 5}
	for _, size := range []int{0, 1, checkpointFrame - 1, checkpointFrame, checkpointFrame + 1, 3*checkpointFrame + 5} {
		snapshot := strings.Repeat("s", size)
		for _, whole := range []bool{true, false} {
			p, err := readCheckpoint(bytes.NewReader(checkpointOf(t, want, snapshot)), func(r io.Reader) error {
				if !whole {
					return nil
				}
				got, err := io.ReadAll(r)
				if err == nil && string(got) != snapshot {
					t.Errorf("%d bytes of %d", len(got), size)
				}
				return err
			})
			if err != nil || p != want {
				t.Errorf("%d bytes: %+v, %v", size, p, err)
			}
		}
	}
	drain := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	file := checkpointOf(t, want, "the state")
	for i := range file {
		if _, err := readCheckpoint(bytes.NewReader(file[:i]), drain); err == nil {
			t.Errorf("cut off at %d of %d, it is read", i, len(file))
		}
		changed := bytes.Clone(file)
		changed[i] ^= 0x40
		if _, err := readCheckpoint(bytes.NewReader(changed), drain); err == nil {
			t.Errorf("changed at %d of %d, it is read", i, len(file))
		}
	}
}

// TestCheckpointChanges: changes follow what they are of, and the progress is the last; what was cut off within one, or changed anywhere, is an
// error.
func TestCheckpointChanges(t *testing.T) {
	var file []byte
	ends := map[int]progress{}
	long := strings.Repeat("long", checkpointFrame/4+10) // two frames
	for i, text := range []string{"the state", "", long, "end"} {
		p := progress{Version: checkpointVersion, Offset: someOffset, Outputs: int64(i), Messages: int64(2 * i)}
		file = append(file, checkpointOf(t, p, text)...)
		ends[len(file)] = p
	}
	read := func(file []byte) (p progress, text []byte, err error) {
		p, err = readCheckpoint(bytes.NewReader(file), func(r io.Reader) (err error) {
			text, err = io.ReadAll(r)
			return err
		})
		return p, text, err
	}
	p, text, err := read(file)
	if want := "the state" + long + "end"; err != nil || string(text) != want || p != ends[len(file)] {
		t.Fatalf("%d bytes, %+v, %v", len(text), p, err)
	}
	for i := range file {
		if i > 1000 && i < len(file)-1000 && i%997 > 0 {
			continue
		}
		p, _, err := read(file[:i])
		if want, end := ends[i]; end != (err == nil) || end && p != want {
			t.Errorf("cut off at %d of %d: %+v, %v", i, len(file), p, err)
		}
		changed := bytes.Clone(file)
		changed[i] ^= 0x40
		if _, _, err := read(changed); err == nil {
			t.Errorf("changed at %d of %d, it is read", i, len(file))
		}
	}
}

func FuzzReadCheckpoint(f *testing.F) {
	f.Add(checkpointOf(f, progress{Offset: someOffset}, "the state"))
	f.Add(append(checkpointOf(f, progress{Offset: someOffset}, "the state"), checkpointOf(f, progress{Offset: someOffset}, "changes")...))
	f.Add([]byte("\x00\x01\x00\x00"))
	f.Fuzz(func(_ *testing.T, file []byte) {
		_, _ = readCheckpoint(bytes.NewReader(file), func(r io.Reader) error { // any error will do
			_, err := io.Copy(io.Discard, r)
			return err
		})
	})
}
