package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the size of the largest declaration that Parse takes.
const MaxFile = 4 << 20

// Parse reads a declaration in YAML and validates it. It is strict: an unknown field, a name that stands twice, a value that is no
// duration, a fraction of a partition, a 0 or a field without a value that would declare nothing, and a second document are errors, all
// of them, each with its line.
func Parse(text []byte) (Topology, error) {
	if len(text) > MaxFile {
		return Topology{}, fmt.Errorf("topology: the declaration has more than %d bytes", MaxFile)
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return Topology{}, parseError(err)
	}
	if pairs(&tree, map[*yaml.Node]int64{}) > maxPairs {
		return Topology{}, errors.New("topology: the declaration has too many names side by side: more than about 60,000 in one place, or fewer in many")
	}
	var t Topology
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return Topology{}, parseError(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Topology{}, errors.New("topology: the declaration has more than one YAML document")
	}
	if errs := misread(&tree, 0); len(errs) > 0 {
		return Topology{}, errors.Join(errs...)
	}
	return t, t.Validate()
}

// maxPairs are compared in seconds.
const maxPairs = 2e9

// pairs are those of names that the YAML reader compares: in a mapping each with each, and again for each of its aliases. What has them is
// counted once.
func pairs(n *yaml.Node, counted map[*yaml.Node]int64) int64 {
	if n.Kind == yaml.ScalarNode {
		return 0
	}
	if n.Kind == yaml.AliasNode {
		return pairs(n.Alias, counted)
	}
	all, ok := counted[n]
	if ok {
		return all
	}
	counted[n] = 0 // while it is counted: the reader refuses what contains itself
	if n.Kind == yaml.MappingNode {
		names := int64(len(n.Content) / 2)
		all = names * names / 2
	}
	for _, c := range n.Content {
		all += pairs(c, counted)
	}
	counted[n] = min(all, maxPairs+1) // aliases of aliases would be more than an int64 holds
	return counted[n]
}

// named are the fields whose entries have names of the user's, and how many levels of them. A name may stand alone.
var named = map[string]int{"tenants": 1, "namespaces": 1, "topics": 1, "nonPersistent": 1, "subscriptions": 1, "isolation": 2}

// misread are errors for what YAML would pass over, below names of the user's: fields without a value, while "deadLetter:" looks as if
// it declared one, and the fractions of whole numbers.
func misread(n *yaml.Node, names int) (errs []error) {
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			errs = append(errs, misread(c, 0)...)
		}
		return errs
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below := names - 1
		if names == 0 {
			below = named[key.Value]
			switch {
			case value.Tag == "!!null":
				errs = append(errs, fmt.Errorf("topology: line %d: %s has no value: leave it out, or say {}", key.Line, key.Value))
			case value.Tag == "!!float" && key.Value != "markDeleteRate":
				errs = append(errs, fmt.Errorf("topology: line %d: %s: %s is no whole number; quote text", key.Line, key.Value, value.Value))
			}
		}
		errs = append(errs, misread(value, below)...)
	}
	return errs
}

// parseError has a line for each of yaml's errors.
func parseError(err error) error {
	var many *yaml.TypeError
	if !errors.As(err, &many) {
		return fmt.Errorf("topology: %w", err)
	}
	errs := make([]error, len(many.Errors))
	for i, text := range many.Errors {
		errs[i] = fmt.Errorf("topology: %s", text)
	}
	return errors.Join(errs...)
}

// Load reads a declaration from a YAML file, as Parse does.
func Load(path string) (Topology, error) {
	file, err := os.Open(path)
	if err != nil {
		return Topology{}, fmt.Errorf("topology: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return Topology{}, fmt.Errorf("topology: %w", err)
	}
	t, err := Parse(text)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// YAML is the declaration as Parse reads it, in an order that is always the same.
func (t Topology) YAML() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(t), encoder.Close()); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return b.Bytes(), nil
}
