package pulsartest_test

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// recording is a file of answers of Pulsar 4.0.8 by name, which a broker's answers are compared with. With -record the file is made
// anew from the broker at PULSAR_URL.
type recording struct {
	file string
	mu   sync.Mutex
	want map[string]string
	got  map[string]string
}

func recorded(t *testing.T, file string) *recording {
	t.Helper()
	r := &recording{file: file, want: map[string]string{}, got: map[string]string{}}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r.want)
	}
	if err != nil && !*record {
		t.Fatal(err)
	}
	return r
}

func (r *recording) check(t *testing.T, name, got string) {
	t.Helper()
	if *record {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[name] = got
	} else if got != r.want[name] {
		t.Errorf("%s:\n got %s\nwant %s", name, got, r.want[name])
	}
}

func (r *recording) save(t *testing.T) {
	t.Helper()
	if !*record {
		return
	}
	text, err := json.MarshalIndent(r.got, "", "\t")
	if err == nil {
		err = os.WriteFile(r.file, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
