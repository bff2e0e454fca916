package topology

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Infinite is a [Duration], [Size] or count without a limit. YAML says "infinite".
const Infinite = -1

// Duration is a span of time; 0 is none declared, [Infinite] has no end. YAML says 90s, 30m, 12h, 7d, 2w, or 1d12h.
type Duration time.Duration

// The units of a Duration: 7 * topology.Day.
const (
	Millisecond = Duration(time.Millisecond)
	Second      = Duration(time.Second)
	Minute      = Duration(time.Minute)
	Hour        = Duration(time.Hour)
	Day         = 24 * Hour
	Week        = 7 * Day
)

// ParseDuration reads what YAML says of a Duration. Negative spans but for "infinite" are errors.
func ParseDuration(text string) (Duration, error) {
	if text == infinite {
		return Infinite, nil
	}
	rest, total := text, Duration(0)
	for _, unit := range []struct {
		letter string
		length Duration
	}{{"w", Week}, {"d", Day}} {
		before, after, found := strings.Cut(rest, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(before, 10, 32)
		if err != nil || Duration(n) > math.MaxInt64/unit.length-total/unit.length {
			return 0, badDuration(text)
		}
		total, rest = total+Duration(n)*unit.length, after
	}
	if rest == "" && text != "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || Duration(d) > math.MaxInt64-total {
		return 0, badDuration(text)
	}
	return total + Duration(d), nil
}

func badDuration(text string) error {
	return fmt.Errorf("%q is no duration such as 90s, 12h, 7d or infinite", text)
}

// String is the shortest text that ParseDuration reads as d.
func (d Duration) String() string {
	switch {
	case d < 0:
		return infinite
	case d >= Day && d%Day == 0:
		return fmt.Sprintf("%dd", d/Day)
	}
	text := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// UnmarshalYAML reads a Duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) (err error) {
	if *d, err = ParseDuration(n.Value); err != nil || n.Kind != yaml.ScalarNode {
		return at(n, cmp.Or(err, badDuration(n.Value)))
	}
	return declares(n, *d)
}

// declares refuses 0, which would be passed over in silence, while Pulsar takes it for no limit in some places and for none at all in
// others.
func declares[T Duration | Size | Count](n *yaml.Node, v T) error {
	if v == 0 {
		return at(n, fmt.Errorf("%q declares nothing: leave it out, or say infinite", n.Value))
	}
	return nil
}

// MarshalYAML writes a Duration.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// Size is a number of bytes; 0 is none declared, [Infinite] has no limit. YAML says 512MiB, 10GiB, 5GB, or a plain number of bytes.
type Size int64

// The units of a Size: 10 * topology.GiB.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var sizeUnits = []struct {
	name  string
	bytes Size
}{
	{"TiB", TiB},
	{"GiB", GiB},
	{"MiB", MiB},
	{"KiB", KiB},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// ParseSize reads what YAML says of a Size. A fraction, as in 1.5GiB, has to give whole bytes.
func ParseSize(text string) (Size, error) {
	if text == infinite {
		return Infinite, nil
	}
	number, unit := text, Size(1)
	for _, u := range sizeUnits {
		if before, found := strings.CutSuffix(text, u.name); found {
			number, unit = before, u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || Size(n) > math.MaxInt64/unit {
			return 0, badSize(text)
		}
		return Size(n) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	bytes := f * float64(unit)
	if err != nil || strings.ContainsAny(number, "eExXpP_") || !(bytes >= 0 && bytes < 1<<53) || bytes != math.Trunc(bytes) {
		return 0, badSize(text)
	}
	return Size(bytes), nil
}

func badSize(text string) error {
	return fmt.Errorf("%q is no size such as 512MiB, 10GiB or infinite", text)
}

// String is the shortest text that ParseSize reads as s.
func (s Size) String() string {
	if s < 0 {
		return infinite
	}
	for _, u := range sizeUnits {
		if s >= u.bytes && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.name)
		}
	}
	return "0B"
}

// UnmarshalYAML reads a Size.
func (s *Size) UnmarshalYAML(n *yaml.Node) (err error) {
	if *s, err = ParseSize(n.Value); err != nil || n.Kind != yaml.ScalarNode {
		return at(n, cmp.Or(err, badSize(n.Value)))
	}
	return declares(n, *s)
}

// MarshalYAML writes a Size.
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// Count is a number of things; 0 is none declared, [Infinite] has no limit.
type Count int64

// String is the number, or infinite.
func (c Count) String() string {
	if c < 0 {
		return infinite
	}
	return strconv.FormatInt(int64(c), 10)
}

// UnmarshalYAML reads a Count.
func (c *Count) UnmarshalYAML(n *yaml.Node) error {
	if n.Value == infinite {
		*c = Infinite
		return nil
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < 0 || n.Kind != yaml.ScalarNode {
		return at(n, fmt.Errorf("%q is no count: a number, or infinite", n.Value))
	}
	*c = Count(v)
	return declares(n, *c)
}

// MarshalYAML writes a Count.
func (c Count) MarshalYAML() (any, error) {
	if c < 0 {
		return infinite, nil
	}
	return int64(c), nil
}

// Switch is On, Off, or, when zero, not declared. YAML says on or off, or true or false.
type Switch int8

// The positions of a Switch.
const (
	Off Switch = -1
	On  Switch = 1
)

func switchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// String is on, off, or nothing.
func (s Switch) String() string {
	switch {
	case s > 0:
		return "on"
	case s < 0:
		return "off"
	}
	return ""
}

// UnmarshalYAML reads a Switch.
func (s *Switch) UnmarshalYAML(n *yaml.Node) error {
	switch n.Value {
	case "on", "true":
		*s = On
	case "off", "false":
		*s = Off
	default:
		return at(n, fmt.Errorf("%q is neither on nor off", n.Value))
	}
	return nil
}

// MarshalYAML writes a Switch.
func (s Switch) MarshalYAML() (any, error) {
	if s == 0 {
		return nil, errors.New("topology: a switch that is not declared has no text")
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: s.String()}, nil // YAML 1.2 does not quote it
}

const infinite = "infinite"

// at is an error that yaml collects with its own, and that says where.
func at(n *yaml.Node, err error) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
}
