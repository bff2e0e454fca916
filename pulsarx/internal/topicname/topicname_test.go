package topicname_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

func TestSplitPartition(t *testing.T) {
	type parts struct {
		topic string
		n     int
	}
	for name, want := range map[string]parts{
		"t": {"t", -1}, "": {"", -1}, "t-partition-": {"t-partition-", -1},
		"t-partition-0": {"t", 0}, "t-partition-12": {"t", 12}, "t-partition-2147483647": {"t", 2147483647},
		"t-partition-1-partition-2": {"t-partition-1", 2}, "t-partition-x-partition-2": {"t-partition-x", 2}, "-partition-3": {"", 3},
		"t-partition-00": {"t-partition-00", -1}, "t-partition-07": {"t-partition-07", -1}, "t-partition--1": {"t-partition--1", -1},
		"t-partition-+1": {"t-partition-+1", -1}, "t-partition-1_0": {"t-partition-1_0", -1}, "t-partition-1-2": {"t-partition-1-2", -1},
		"t-partition-2147483648": {"t-partition-2147483648", -1}, "t-partition-x": {"t-partition-x", -1},
		"t-partition-1-partition-x": {"t-partition-1-partition-x", -1}, "t-partition-18446744073709551616": {"t-partition-18446744073709551616", -1},
	} {
		topic, n := topicname.SplitPartition(name)
		if (parts{topic, n}) != want {
			t.Errorf("%s: %s and %d, want %v", name, topic, n, want)
		}
		if n >= 0 && topicname.Partition(topic, n) != name {
			t.Errorf("%s is %s", name, topicname.Partition(topic, n))
		}
	}
}
