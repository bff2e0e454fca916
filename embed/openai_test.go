package embed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

// server answers as OpenAI's does, with the vectors of embedtest, in reverse order. asBase64 is the other way to write them.
func server(t *testing.T, asBase64 bool, refuses string) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	model := embedtest.New(8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var q struct {
			Model, EncodingFormat string
			Input                 []string
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/embeddings" || q.Model != "small" {
			t.Errorf("%s: %+v, error %v", r.URL, q, err)
		}
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if slices.Contains(q.Input, refuses) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error": {"message": "bad text: %s", "type": "invalid_request_error"}}`, refuses)
			return
		}
		vectors, _ := model.Embed(r.Context(), q.Input)
		var data []any
		for i := len(vectors) - 1; i >= 0; i-- {
			var v any = vectors[i]
			if asBase64 {
				raw, _ := binary.Append(nil, binary.LittleEndian, vectors[i])
				v = base64.StdEncoding.EncodeToString(raw)
			}
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": v})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]int{"total_tokens": 1}})
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", requests
}

func secret(context.Context) (string, error) { return "secret", nil }

func TestOpenAI(t *testing.T) {
	t.Parallel()
	for _, asBase64 := range []bool{false, true} {
		url, requests := server(t, asBase64, "forbidden")
		e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: url, Model: "small", Dimensions: 8, Key: secret, MaxInputs: 3})
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{"1", "2", "3", "4", "forbidden", "6", "7"}
		got, err := e.Embed(t.Context(), texts)
		want, _ := embedtest.New(8).Embed(t.Context(), texts)
		want[4] = nil
		var items interface{ ItemErrors() []error }
		if !errors.As(err, &items) || items.ItemErrors()[4] == nil || len(embedFailed(items.ItemErrors())) != 1 || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%v, error %v", got, err)
		}
		if n := requests.Load(); n != 6 {
			t.Errorf("%d requests, want 3 and one for each of the three texts of the part that was refused", n)
		}
		if err == nil || strings.Contains(err.Error(), "bad text") || !strings.Contains(err.Error(), "400 Bad Request, invalid_request_error") {
			t.Errorf("error %v", err)
		}
	}
}

func TestOpenAIFailures(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("0,", 1<<20)
	tests := []struct {
		name, body string
		status     int
		header     string
		says       string
		permanent  bool
		after      time.Duration
	}{
		{"busy", ``, 429, "7", "429 Too Many Requests", false, 7 * time.Second},
		{"busy for ever", ``, 503, "99999999", "503", false, time.Hour},
		{"until a date", ``, 503, "Mon, 02 Jan 2006 15:04:05 GMT", "503", false, 0},
		{"wrong key", `{"error": {"code": "invalid_api_key", "message": "key sk-123"}}`, 401, "", "401 Unauthorized, invalid_api_key", false, 0},
		{"too long", `{"error": {"type": "a text, with words"}}`, 413, "", "413 Request Entity Too Large", true, 0},
		{"no JSON", `<html>`, 200, "", "no JSON at byte 1", false, 0},
		{"other JSON", `{"data": 7}`, 200, "", "field data is no", false, 0},
		{"no vectors", `{"data": []}`, 200, "", "0 vectors for 1 texts", false, 0},
		{"another index", `{"data": [{"index": 1, "embedding": [1]}]}`, 200, "", "index 1 for 1 texts", false, 0},
		{"an index twice", `{"data": [{"index": 0, "embedding": [1, 1]}, {"index": 0, "embedding": [1, 1]}]}`, 200, "", "index 0 for 1 texts", false, 0},
		{"no numbers", `{"data": [{"index": 0, "embedding": {"a": 1}}]}`, 200, "", "not a list of numbers", true, 0},
		{"null for NaN", `{"data": [{"index": 0, "embedding": [null, 1]}]}`, 200, "", "not a list of numbers", true, 0},
		{"null", `{"data": [{"index": 0, "embedding": null}]}`, 200, "", "not a list of numbers", true, 0},
		{"too large a number", `{"data": [{"index": 0, "embedding": [1e39, 1]}]}`, 200, "", "not a list of numbers", true, 0},
		{"NaN in base64", `{"data": [{"index": 0, "embedding": "AADAfwAAgD8="}]}`, 200, "", "component 0 is NaN", true, 0},
		{"half a number", `{"data": [{"index": 0, "embedding": "AAA="}]}`, 200, "", "not base64 of float32", true, 0},
		{"wrong length", `{"data": [{"index": 0, "embedding": [1]}]}`, 200, "", "1 components, want 2", true, 0},
		{"endless", `{"data": [{"index": 0, "embedding": [` + many, 200, "", "unexpected EOF", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer s.Close()
			e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL, Model: "m", Dimensions: 2})
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Embed(t.Context(), []string{"text"})
			var p interface{ Permanent() bool }
			permanent := errors.As(err, &p) && p.Permanent()
			if err == nil || !strings.Contains(err.Error(), tt.says) || permanent != tt.permanent || strings.Contains(err.Error(), "sk-123") || strings.Contains(err.Error(), "words") {
				t.Errorf("error %v, permanent %v; want %q", err, permanent, tt.says)
			}
			var r interface{ RetryAfter() time.Duration }
			if errors.As(err, &r) && r.RetryAfter() != tt.after {
				t.Errorf("retry after %v, want %v", r.RetryAfter(), tt.after)
			}
		})
	}
}

// TestOpenAIDown: a request that fails costs its own texts, until it is plain that others would fail too.
func TestOpenAIDown(t *testing.T) {
	t.Parallel()
	left := errors.New("left")
	tests := []struct {
		name     string
		statuses []int // of the requests, one for each text
		requests int
		made     []int
	}{
		{"one", []int{200, 503, 200, 200}, 4, []int{0, 2, 3}},
		{"the first", []int{429, 200, 200, 500}, 4, []int{1, 2}},
		{"every other", []int{500, 200, 502, 200}, 4, []int{1, 3}},
		{"two in a row", []int{200, 503, 503, 200}, 3, []int{0}},
		{"all", []int{503, 503, 503, 503}, 2, nil},
		{"no leave", []int{200, 401, 200, 200}, 2, []int{0}},
		{"no such model", []int{404, 200, 200, 200}, 1, nil},
		{"a text that is refused between", []int{503, 400, 503, 200}, 4, []int{3}},
		{"no key", []int{200, 0, 200, 200}, 1, []int{0}},
		{"the caller leaves", []int{200, -1, 200, 200}, 2, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var requests, keys atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client has left
				switch status := tt.statuses[requests.Add(1)-1]; status {
				case http.StatusOK:
					_, _ = w.Write([]byte(`{"data": [{"index": 0, "embedding": [3, 0]}]}`))
				case -1:
					cancel(left)
					<-r.Context().Done()
				default:
					w.WriteHeader(status)
				}
			}))
			defer s.Close()
			key := func(context.Context) (string, error) {
				if tt.statuses[keys.Add(1)-1] == 0 {
					return "", errors.New("vault is sealed")
				}
				return "secret", nil
			}
			e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL, Model: "m", Dimensions: 2, MaxInputs: 1, Key: key})
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Embed(ctx, []string{"a", "b", "c", "d"})
			var items interface{ ItemErrors() []error }
			if !errors.As(err, &items) || len(got) != 4 {
				t.Fatalf("%v, error %v", got, err)
			}
			for i, err := range items.ItemErrors() {
				if made := slices.Contains(tt.made, i); made != (err == nil) || made != (got[i] != nil) {
					t.Errorf("text %d: %v, error %v", i, got[i], err)
				}
			}
			if n := int(requests.Load()); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
}

// TestOpenAIDownAlone: texts that are tried alone, since one of theirs was refused, do not each wait for a server that is down.
func TestOpenAIDownAlone(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL, Model: "m", Dimensions: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Embed(t.Context(), strings.Split(strings.Repeat("text,", 99), ","))
	var items interface{ ItemErrors() []error }
	if !errors.As(err, &items) || len(embedFailed(items.ItemErrors())) != 100 || !strings.Contains(fmt.Sprint(items.ItemErrors()[99]), "503") {
		t.Errorf("error %v", err)
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests, want one for the first part and two for its texts", n)
	}
}

// TestOpenAIRedirect: neither the key nor a text goes to another server, nor to another port of the same.
func TestOpenAIRedirect(t *testing.T) {
	t.Parallel()
	var strayed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer other.Close()
	good, _ := server(t, false, "")
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
			s := httptest.NewServer(http.RedirectHandler(to, status))
			e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL, Model: "m", Dimensions: 2, Key: secret})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Embed(t.Context(), []string{"text"}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) || strayed.Load() > 0 {
				t.Errorf("%d to %s: error %v, %d requests there", status, to, err, strayed.Load())
			}
			s.Close()
		}
	}
	mux := http.NewServeMux() // the same server may move
	to, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/old/embeddings", http.RedirectHandler("/v1/embeddings", http.StatusPermanentRedirect))
	mux.Handle("/v1/embeddings", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host}))
	s := httptest.NewServer(mux)
	defer s.Close()
	e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL + "/old", Model: "small", Dimensions: 8, Key: secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), []string{"text"}); err != nil {
		t.Error(err)
	}
}

// TestOpenAIBadVector: a vector that cannot be read costs its text alone.
func TestOpenAIBadVector(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data": [{"index": 2, "embedding": [3, 0]}, {"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [null, 0]}]}`))
	}))
	defer s.Close()
	e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: s.URL, Model: "m", Dimensions: 2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Embed(t.Context(), []string{"a", "b", "c"})
	var items interface{ ItemErrors() []error }
	if !errors.As(err, &items) || len(embedFailed(items.ItemErrors())) != 1 || !errors.Is(items.ItemErrors()[1], embed.ErrVector) ||
		!slices.EqualFunc(got, [][]float32{{1, 0}, nil, {3, 0}}, slices.Equal) {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestOpenAIOptions(t *testing.T) {
	t.Parallel()
	_, err := embed.NewOpenAI(embed.OpenAIOptions{URL: "ftp://x"})
	for _, field := range []string{"URL", "Model", "Dimensions"} {
		if err == nil || !strings.Contains(err.Error(), "OpenAIOptions."+field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
	nobody, err := embed.NewOpenAI(embed.OpenAIOptions{URL: "http://user:pass@localhost:1/v1?key=sk-123", Model: "m", Dimensions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Embed(t.Context(), []string{"x"}); err == nil || strings.Contains(err.Error(), "sk-123") || !strings.Contains(err.Error(), "http://localhost:1/v1/embeddings") {
		t.Errorf("error %v", err)
	}
	e, err := embed.NewOpenAI(embed.OpenAIOptions{URL: "http://user:pass@localhost:1/v1?key=sk-123", Model: "m", Dimensions: 2, Key: func(context.Context) (string, error) {
		return "", errors.New("vault is sealed")
	}})
	if err != nil || strings.Contains(e.Model().Fingerprint, "pass") || strings.Contains(e.Model().Fingerprint, "sk-123") {
		t.Fatalf("fingerprint %s, error %v", e.Model().Fingerprint, err)
	}
	if _, err := e.Embed(t.Context(), []string{"x"}); err == nil || !strings.Contains(err.Error(), "vault is sealed") || strings.Contains(err.Error(), "pass") {
		t.Errorf("error %v", err)
	}
}

func TestRecordAndVerify(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var file bytes.Buffer
	texts := []string{"", "tea with milk", "línea\nnueva"}
	if err := embed.Record(ctx, &file, embedtest.New(64), texts); err != nil {
		t.Fatal(err)
	}
	if err := embed.Verify(ctx, bytes.NewReader(file.Bytes()), embedtest.New(64)); err != nil {
		t.Error(err)
	}
	broken := embedtest.New(64)
	broken.Inject(embedtest.Fault{Match: "tea", Kind: embedtest.NaN})
	tests := []struct {
		name string
		file string
		e    embed.Embedder[string]
		is   error
		says string
	}{
		{"another model", file.String(), embedtest.NewNamed("other", 64), embed.ErrGolden, "line 1: cosine"},
		{"another length", file.String(), embedtest.New(32), embed.ErrGolden, "line 1: 32 components, recorded 64"},
		{"NaN", file.String(), broken, embed.ErrVector, "line 2"},
		{"another order of components", reversed(t, file.Bytes()), embedtest.New(64), embed.ErrGolden, "line 1: cosine"},
		{"empty", "", embedtest.New(64), nil, "no recorded vectors"},
		{"no JSON", "x\n", embedtest.New(64), nil, "line 1"},
		{"no text", `{"vector": [1]}`, embedtest.New(64), nil, "line 1"},
		{"no direction", fmt.Sprintf(`{"text": "a", "vector": [%s0]}`, strings.Repeat("0,", 63)), embedtest.New(64), embed.ErrGolden, "NaN"},
	}
	for _, tt := range tests {
		err := embed.Verify(ctx, strings.NewReader(tt.file), tt.e)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
	if err := embed.Record(ctx, &file, broken, texts); !errors.Is(err, embed.ErrVector) {
		t.Errorf("recorded NaN: %v", err)
	}
}

// reversed is a file of recorded vectors with each vector the other way round.
func reversed(t *testing.T, file []byte) string {
	t.Helper()
	var out strings.Builder
	for line := range bytes.Lines(file) {
		var v struct {
			Text   string    `json:"text"`
			Vector []float32 `json:"vector"`
		}
		if err := json.Unmarshal(line, &v); err != nil || math.IsNaN(float64(v.Vector[0])) {
			t.Fatal(err)
		}
		slices.Reverse(v.Vector)
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(data, '\n'))
	}
	return out.String()
}
