// Package topicname reads the names of topics by Pulsar's rules, for pulsarx and its subpackages.
package topicname

import (
	"strconv"
	"strings"
)

// PartitionSuffix stands between a topic's name and the number of its partition.
const PartitionSuffix = "-partition-"

// Partition is the n-th partition's name.
func Partition(topic string, n int) string { return topic + PartitionSuffix + strconv.Itoa(n) }

// SplitPartition is Partition's inverse. A name that is no partition's is returned as it is, with -1. As in Pulsar (TopicName.getPartitionIndex),
// the number is a 32-bit one, written as Partition writes it: orders-partition-07 is a topic of its own.
func SplitPartition(name string) (topic string, n int) {
	at := strings.LastIndex(name, PartitionSuffix)
	if at < 0 {
		return name, -1
	}
	digits := name[at+len(PartitionSuffix):]
	number, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strconv.FormatUint(number, 10) != digits {
		return name, -1
	}
	return name[:at], int(number)
}
