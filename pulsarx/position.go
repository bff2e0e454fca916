package pulsarx

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

// Position is a place in topics: one in each partition. The zero Position is the beginning. It is kept as text, by MarshalText; that
// of Progress names every partition of which something has been handled, and says where the others begin.
type Position struct {
	time  time.Time         // where the partitions begin that after does not name; zero: at their beginning
	after map[string]string // partition name -> offset of the last message before
}

// At is the place of the first message published at t or later, to the millisecond, by the clocks of the producers. Where those
// disagree, it is the place that the broker finds by bisection.
func At(t time.Time) Position { return Position{time: t} }

// After is the place behind a message that was received from topic (Message.Topic, Message.ID) or sent to it. The other partitions
// of the topic are at their beginning. A topic that is named with its partition is that partition, whatever the id says.
func After(topic string, id MessageID) Position {
	name := fullTopic(topic)
	if p := id.PartitionIdx(); p >= 0 && parsePartition(name).topic == name {
		name = topicname.Partition(name, int(p))
	}
	return Position{after: map[string]string{name: offset(id)}}
}

// positionVersion stands in front of a position's text, so that a later form is told from this one.
const positionVersion = "v1"

// positionEscapes keep what separates the parts of a position out of the names of topics.
var positionEscapes = strings.NewReplacer("%", "%25", ",", "%2C", " ", "%20", "\n", "%0A", "\r", "%0D")

// MarshalText writes the position as one line, beginning with the version of its form: "v1 beginning", "v1 at:<RFC 3339 time>", and
// either followed by " after:" and partition@offset pairs.
func (p Position) MarshalText() ([]byte, error) {
	text := positionVersion + " beginning"
	if !p.time.IsZero() {
		text = positionVersion + " at:" + p.time.UTC().Format(time.RFC3339Nano)
	}
	if len(p.after) == 0 {
		return []byte(text), nil
	}
	parts := make([]string, 0, len(p.after))
	for _, name := range slices.Sorted(maps.Keys(p.after)) {
		parts = append(parts, positionEscapes.Replace(name)+"@"+p.after[name])
	}
	return []byte(text + " after:" + strings.Join(parts, ",")), nil
}

// UnmarshalText reads what MarshalText wrote. A person may leave the version out, and write "beginning" or
// "at:2024-05-06T07:08:09Z". A version that this package does not know is an error.
func (p *Position) UnmarshalText(text []byte) error {
	read, err := parsePosition(string(text))
	if err != nil {
		return fmt.Errorf("pulsarx: position %.200q: %w", text, err)
	}
	*p = read
	return nil
}

func parsePosition(text string) (p Position, err error) {
	words := strings.Split(text, " ")
	if len(words) > 1 && words[0] == positionVersion {
		words = words[1:]
	} else if len(words) > 1 && len(words[0]) > 1 && words[0][0] == 'v' {
		return p, fmt.Errorf("version %s is not known here", words[0])
	}
	switch at, timed := strings.CutPrefix(words[0], "at:"); {
	case timed:
		if p.time, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return p, err
		}
		words = words[1:]
	case words[0] == "beginning":
		words = words[1:]
	}
	if len(words) == 0 {
		return p, nil
	}
	after, ok := strings.CutPrefix(words[0], "after:")
	if !ok || len(words) > 1 {
		return p, errors.New(`want "beginning", "at:" and a time, or "after:" and partition@offset pairs`)
	}
	p.after, err = parsePlaces(after)
	return p, err
}

func parsePlaces(text string) (map[string]string, error) {
	after := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		at := strings.LastIndexByte(part, '@')
		if at <= 0 {
			return nil, errors.New("a place is partition@offset")
		}
		name, err := url.PathUnescape(part[:at])
		if err != nil {
			return nil, err
		}
		if _, _, _, err := parseOffset(part[at+1:]); err != nil {
			return nil, err
		}
		if after[name] != "" {
			return nil, fmt.Errorf("%s has two places", name)
		}
		after[name] = part[at+1:]
	}
	return after, nil
}

// String is the position's text.
func (p Position) String() string {
	text, _ := p.MarshalText()
	return string(text)
}

// concerns is an error where the position is one of other topics than those of the partitions.
func (p Position) concerns(option string, partitions []string) error {
	for place := range p.after {
		topic, _ := topicname.SplitPartition(place)
		if slices.ContainsFunc(partitions, func(name string) bool { return parsePartition(name).topic == topic }) {
			return nil
		}
	}
	if len(p.after) == 0 {
		return nil
	}
	return fmt.Errorf("ReplayOptions.%s is a position in %s, which is none of the topics", option, slices.Sorted(maps.Keys(p.after))[0])
}

// offsetOf is where the position is in a partition, empty where it does not name it. A topic without partitions may be named as its
// partition 0: message ids do not tell the two apart.
func (p Position) offsetOf(name string) string {
	if at := p.after[name]; at != "" {
		return at
	}
	return p.after[topicname.Partition(name, 0)]
}
