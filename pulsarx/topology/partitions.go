package topology

import (
	"cmp"
	"fmt"
)

// MessagesPerPartition is how many messages a second Partitions counts on for a partition unless told otherwise. It is a round
// figure to plan with: measure your own messages, schemas and consumers.
const MessagesPerPartition = 50_000

// Partitions says how many partitions a topic needs for that many messages a second, and why. perPartition is what one partition is
// counted on for, MessagesPerPartition by default. Plan for the peak of the years to come: growing a topic later moves its keys.
func Partitions(targetMsgsPerSecond, perPartition int) (int, string) {
	perPartition = cmp.Or(max(perPartition, 0), MessagesPerPartition)
	target := max(targetMsgsPerSecond, 0)
	n := target / perPartition
	if target%perPartition > 0 {
		n++
	}
	if n <= 1 {
		return 1, fmt.Sprintf("%d messages/s are within the %d/s that one partition is counted on for", target, perPartition)
	}
	return n, fmt.Sprintf("%d messages/s at %d/s a partition take %d partitions, which leaves %d/s of room",
		target, perPartition, n, (perPartition-target%perPartition)%perPartition)
}
