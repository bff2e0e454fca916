package embed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

// strict is an embedder around another one: it refuses empty texts, each by itself, and embeds the others.
type strict struct{ embed.Embedder[string] }

func (s strict) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	errs := make([]error, len(texts))
	for i, text := range texts {
		if text == "" {
			errs[i] = errors.New("empty text")
			continue
		}
		v, err := s.Embedder.Embed(ctx, []string{text})
		if err != nil {
			return nil, err
		}
		vectors[i] = v[0]
	}
	return vectors, embed.NewBatchError(errs)
}

func ExampleBatchError() {
	var e embed.Embedder[string] = strict{embedtest.New(3)}
	texts := []string{"tea", "", "coffee"}
	vectors, err := e.Embed(context.Background(), texts)

	var items interface{ ItemErrors() []error }
	switch {
	case err == nil:
		fmt.Println("all embedded")
	case errors.As(err, &items) && len(items.ItemErrors()) == len(texts):
		for i, err := range items.ItemErrors() {
			fmt.Printf("%q: %d components, error %v\n", texts[i], len(vectors[i]), err)
		}
	default:
		fmt.Println("none embedded:", err)
	}
	// Output:
	// "tea": 3 components, error <nil>
	// "": 0 components, error empty text
	// "coffee": 3 components, error <nil>
}

func ExampleBatcher() {
	texts := embed.NewBatcher(embedtest.New(3), embed.BatcherOptions{MaxItems: 32})

	// Requests of a server come from many goroutines at a time, with a text each.
	vectors, err := texts.Embed(context.Background(), []string{"tea"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(vectors), len(vectors[0]))

	// Existing rows yield to them.
	backfill := embed.WithPriority(context.Background(), embed.Backfill)
	vectors, err = texts.Embed(backfill, []string{"coffee", "cocoa"})
	fmt.Println(len(vectors), err)
	// Output:
	// 1 3
	// 2 <nil>
}

func ExampleShare() {
	canary := embed.Share("new model", 0.05)
	n := 0
	for key := range 10_000 {
		if canary(fmt.Sprint(key)) {
			n++
		}
	}
	fmt.Println(n > 400 && n < 600)
	// Output: true
}

func ExampleCache() {
	model := embedtest.New(3)
	texts := embed.NewCache(model, embed.CacheOptions{MaxBytes: 64 << 20})
	defer texts.Close()
	for range 3 {
		if _, err := texts.Embed(context.Background(), []string{"tea", "coffee", "tea"}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(model.Inputs())
	// Output: [tea coffee]
}

func ExampleLimit() {
	paid := embed.Limit(embedtest.New(3), embed.LimitOptions{CallsPerMinute: 500, Price: 0.02, Budget: 5})
	_, err := paid.Embed(context.Background(), []string{"tea"})
	fmt.Println(err, paid.Spent() > 0)
	// Output: <nil> true
}

func ExampleVerify() {
	ctx := context.Background()
	var file bytes.Buffer // a file beside the model
	if err := embed.Record(ctx, &file, embedtest.New(3), []string{"tea", "coffee"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(embed.Verify(ctx, bytes.NewReader(file.Bytes()), embedtest.New(3)))
	fmt.Println(embed.Verify(ctx, &file, embedtest.NewNamed("another model", 3)))
	// Output:
	// <nil>
	// embed: other vectors than recorded: line 1: cosine -0.3333
}

func ExampleNewOpenAI() {
	// A server that speaks OpenAI's protocol, as vLLM, Ollama, TEI and others do; here one that knows one vector.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[0.6,0.8]}]}`))
	}))
	defer server.Close()
	texts, err := embed.NewOpenAI(embed.OpenAIOptions{
		URL: server.URL + "/v1", Model: "text-embedding-3-small", Dimensions: 2,
		Key: func(context.Context) (string, error) { return "a key from a vault", nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// It costs money: so within rates and a budget, and never twice.
	paid := embed.NewCache(embed.Limit(texts, embed.LimitOptions{CallsPerMinute: 500, Price: 0.02, Budget: 5}), embed.CacheOptions{})
	defer paid.Close()
	fmt.Println(paid.Embed(context.Background(), []string{"tea"}))
	// Output: [[0.6 0.8]] <nil>
}

func ExampleEach() {
	texts := []string{"tea", "", "coffee"}
	vectors, errs := embed.Each(context.Background(), strict{embedtest.New(3)}, texts)
	for i, text := range texts {
		fmt.Printf("%q: %d components, error %v\n", text, len(vectors[i]), errs[i])
	}
	// Output:
	// "tea": 3 components, error <nil>
	// "": 0 components, error empty text
	// "coffee": 3 components, error <nil>
}

func ExampleRecord() {
	var file bytes.Buffer
	err := embed.Record(context.Background(), &file, embedtest.New(2), []string{"tea"})
	fmt.Println(strings.HasPrefix(file.String(), `{"text":"tea","vector":[`), err)
	// Output: true <nil>
}
