package vectorstore

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/embed"
)

type scene struct {
	Caption string
	Picture *embed.Image
	Tags    []string
	Size    [2]int
	Weight  float32
	Sharp   bool
	private uint8
}

func TestDigest(t *testing.T) {
	t.Parallel()
	picture := embed.Image("png")
	tests := []struct {
		in    any
		empty bool
	}{
		{"text", false},
		{"text ", false},
		{"", true},
		{" \t\r\n\u00a0\u3000", true},
		{label("text"), false},
		{embed.Image("png"), false},
		{embed.Image("gif"), false},
		{embed.Image{}, true},
		{(*string)(nil), true},
		{pointer(""), true},
		{pointer("text"), false},
		{[]string{"a", "b"}, false},
		{[]string{"ab", ""}, false},
		{[]string{" ", ""}, true},
		{[]string{}, true},
		{7, false},
		{0, false},
		{1.5, false},
		{uint8(1), false},
		{true, false},
		{scene{}, true},
		{scene{Weight: 1, Sharp: true}, true},
		{scene{Weight: 2}, true},
		{scene{Sharp: true}, true},
		{scene{Size: [2]int{1, 2}}, true},
		{scene{private: 1}, true},
		{scene{Caption: "a"}, false},
		{scene{Tags: []string{"a"}}, false},
		{scene{Picture: &picture}, false},
		{scene{Picture: &embed.Image{}}, true},
	}
	type seen struct {
		t      reflect.Type
		digest string
	}
	digests := map[seen]any{}
	for _, tt := range tests {
		typ := reflect.TypeOf(tt.in)
		d, err := newDigester(typ, "model")
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		digest, empty := d.sum(tt.in)
		if empty != tt.empty || len(digest) != 32 {
			t.Errorf("%#v: digest %q, empty %v", tt.in, digest, empty)
		}
		if same, twice := digests[seen{typ, digest}]; twice {
			t.Errorf("%#v and %#v have one digest", tt.in, same)
		}
		digests[seen{typ, digest}] = tt.in
		other, _ := newDigester(typ, "model 2")
		if again, _ := d.sum(tt.in); again != digest {
			t.Errorf("%#v: another digest the second time", tt.in)
		}
		if again, _ := other.sum(tt.in); again == digest {
			t.Errorf("%#v: the model does not count", tt.in)
		}
	}
}

// TestDigestStays keeps digests from changing between versions, which would embed every stored row again.
func TestDigestStays(t *testing.T) {
	t.Parallel()
	d, err := newDigester(reflect.TypeFor[string](), "fingerprint 384")
	if err != nil {
		t.Fatal(err)
	}
	const want = "604c744203bd309b69ec9ef0b7800b04"
	if got, _ := d.sum("red shoes"); got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
}

type chain struct{ Next *chain }

func TestDigestRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]reflect.Type{
		"interface":                 reflect.TypeFor[any](),
		"map[string]int":            reflect.TypeFor[map[string]int](),
		"func()":                    reflect.TypeFor[func()](),
		"contains itself":           reflect.TypeFor[chain](),
		"field F: an input of type": reflect.TypeFor[struct{ F []chan int }](),
	}
	for want, typ := range tests {
		if _, err := newDigester(typ, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one about %q", typ, err, want)
		}
	}
	e := fixedEmbedder{}
	v := Embed("v", func(int) any { return nil }, embed.Embedder[any](e))
	if _, err := NewSink(nopStore{}, Mapping[int]{Vectors: []Vector[int]{v}}, SinkOptions{}); err == nil {
		t.Error("NewSink takes an embedder of anything")
	}
}

type fixedEmbedder struct{}

func (fixedEmbedder) Model() embed.Model { return embed.Model{} }

func (fixedEmbedder) Embed(context.Context, []any) ([][]float32, error) {
	return nil, errors.New("not called")
}

type nopStore struct{ Store }
