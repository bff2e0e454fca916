package embed

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

// OpenAIOptions are the options of [NewOpenAI].
type OpenAIOptions struct {
	// URL is where the API is, with its version and without "/embeddings", such as "https://api.openai.com/v1". Text Embeddings
	// Inference, vLLM, Ollama and others have the same interface.
	URL string
	// Model is the name that the server knows the model by.
	Model string
	// Dimensions is the length of its vectors. It is not sent, unless Shorten says so.
	Dimensions int
	// Shorten asks the server for vectors of Dimensions, of a model that can make them shorter.
	Shorten bool
	// Key returns the secret that is sent as a bearer token; it is asked before each request, so that it can change. Nil: none.
	Key func(ctx context.Context) (string, error)
	// MaxInputs bounds the texts of a request. Zero: 64.
	MaxInputs int
	// Fingerprint is the model's (see [Model]). Empty: the URL without its query, the name and the length, which do not tell when the
	// server changes the model behind the name.
	Fingerprint string
	// Client makes the requests; nil: one with a timeout of 30 s. It is not led to another scheme, host or port, where the key and the texts
	// have no business: a server that says so is an error.
	Client *http.Client
}

// OpenAI is an [Embedder] of texts over HTTP, by the interface of OpenAI's embeddings that many servers have. It tries nothing twice:
// [Limit] does, and heeds the Retry-After of a server that is busy. It is safe for concurrent use.
type OpenAI struct {
	options OpenAIOptions
	model   Model
	url     string
	place   string // the URL for errors, without what may be secret in it
}

// NewOpenAI returns an embedder of a server. It makes no request.
func NewOpenAI(o OpenAIOptions) (*OpenAI, error) {
	var errs []error
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		errs = append(errs, errors.New("embed: OpenAIOptions.URL is not an http or https URL"))
	}
	if o.Model == "" {
		errs = append(errs, errors.New("embed: OpenAIOptions.Model is missing"))
	}
	if o.Dimensions < 1 {
		errs = append(errs, fmt.Errorf("embed: OpenAIOptions.Dimensions is %d, must be at least 1", o.Dimensions))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if o.MaxInputs <= 0 {
		o.MaxInputs = 64
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 30 * time.Second}
	}
	o.Client = staying(o.Client)
	place := url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}
	if o.Fingerprint == "" {
		o.Fingerprint = fmt.Sprintf("%s %s %d", &place, o.Model, o.Dimensions)
	}
	return &OpenAI{
		options: o, url: base.JoinPath("embeddings").String(), place: place.JoinPath("embeddings").String(),
		model: Model{Name: o.Model, Fingerprint: o.Fingerprint, Dimensions: o.Dimensions},
	}, nil
}

// staying returns the same client, which follows no redirect to another origin. By itself net/http takes the key along to another port, and the
// texts anywhere.
func staying(c *http.Client) *http.Client {
	client := *c
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch from := via[0].URL; {
		case req.URL.Scheme != from.Scheme || req.URL.Host != from.Host || len(via) >= 10:
			return http.ErrUseLastResponse
		case c.CheckRedirect != nil:
			return c.CheckRedirect(req, via)
		}
		return nil
	}
	return &client
}

// Model describes the vectors. MaxLength is zero: the server knows it.
func (e *OpenAI) Model() Model { return e.model }

// Embed asks the server for the vectors, MaxInputs texts at a time; see [Embedder]. A text that the server refuses (status 400, 413 or 422)
// is wrong for good; any other failure may pass, also a key that is refused. A request that fails so costs its own texts alone; but behind
// two in a row, one without leave (status 401, 403 or 404, or no key) or one for which the context has ended, the other texts fail as its own
// do, without a request. No error has a text, the key or the server's words.
func (e *OpenAI) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, errs := make([][]float32, 0, len(texts)), make([]error, 0, len(texts))
	one := &requests{OpenAI: e}
	for part := range slices.Chunk(texts, e.options.MaxInputs) {
		made, failed := Each(ctx, one, part)
		vectors, errs = append(vectors, made...), append(errs, failed...)
	}
	return vectors, NewBatchError(errs)
}

// errKey says that there is no key.
var errKey = errors.New("no key")

// befallsAll reports whether an error is that of every request.
func befallsAll(err error) bool {
	var of *statusError
	if errors.As(err, &of) {
		return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}, of.status)
	}
	return errors.Is(err, errKey)
}

// requests are those of one call of Embed, also for texts that are tried alone since some of theirs were refused.
type requests struct {
	*OpenAI
	failures int   // in a row
	stopped  error // why there are no more
}

// Embed embeds texts in one request.
func (r *requests) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if r.stopped != nil {
		return nil, r.stopped
	}
	vectors, err := r.request(ctx, texts)
	if _, named := itemerror.Align(err, len(texts)); named || itemerror.IsPermanent(err) {
		r.failures = 0
	} else if r.failures++; r.failures == 2 || ctx.Err() != nil || befallsAll(err) {
		r.stopped = err
	}
	return vectors, err
}

// embeddings is the answer of a server.
type embeddings struct {
	Data []struct {
		Index     int             `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
}

func (e *OpenAI) request(ctx context.Context, texts []string) ([][]float32, error) {
	question := map[string]any{"model": e.options.Model, "input": texts, "encoding_format": "float"}
	if e.options.Shorten {
		question["dimensions"] = e.options.Dimensions
	}
	body, err := json.Marshal(question)
	if err != nil {
		return nil, itemerror.Permanent(errors.New("embed: the texts cannot be written as JSON"))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if e.options.Key != nil {
		key, err := e.options.Key(ctx)
		if err != nil {
			return nil, fmt.Errorf("embed: %w of %s: %w", errKey, e.place, err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := e.options.Client.Do(req)
	if err != nil {
		var of *url.Error // whose text has the whole URL
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, fmt.Errorf("embed: %s: %w", e.place, err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	if res.StatusCode != http.StatusOK {
		return nil, newStatusError(res)
	}
	// A component takes about 25 bytes as text at most; a page of anything else is not read to its end.
	limit := int64(len(texts))*(int64(e.options.Dimensions)*32+1<<10) + 1<<20
	var answer embeddings
	if err := json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("embed: the answer of %s: %w", e.place, plain(err))
	}
	return answer.vectors(len(texts))
}

// plain leaves the words of the input out of a JSON error.
func plain(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("field %s is no %s", kind.Field, kind.Type)
	}
	return err
}

// vectors returns the vectors in the order of their texts, which need not be that of the answer, and an item error for each that cannot
// be read.
func (a *embeddings) vectors(n int) ([][]float32, error) {
	vectors, errs, seen := make([][]float32, n), make([]error, n), make([]bool, n)
	for _, d := range a.Data {
		if d.Index < 0 || d.Index >= n || seen[d.Index] {
			return nil, fmt.Errorf("embed: the server answered index %d for %d texts", d.Index, n)
		}
		seen[d.Index] = true
		vectors[d.Index], errs[d.Index] = parseEmbedding(d.Embedding)
	}
	if len(a.Data) != n {
		return nil, fmt.Errorf("embed: the server answered %d vectors for %d texts", len(a.Data), n)
	}
	return vectors, NewBatchError(errs)
}

// parseEmbedding reads a list of numbers, or the base64 of float32 in little-endian order, which some servers prefer.
func parseEmbedding(raw json.RawMessage) ([]float32, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var data []byte
		if err := json.Unmarshal(raw, &data); err != nil || len(data)%4 != 0 {
			return nil, itemerror.Permanent(fmt.Errorf("%w: not base64 of float32", ErrVector))
		}
		v := make([]float32, len(data)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return v, nil
	}
	var v []float32
	// null is what some servers write for NaN, and encoding/json would read as 0.
	if err := json.Unmarshal(raw, &v); err != nil || bytes.Contains(raw, []byte("null")) || v == nil {
		return nil, itemerror.Permanent(fmt.Errorf("%w: not a list of numbers", ErrVector))
	}
	return v, nil
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	kind   string // the server's own name of the error, if it has one
	after  time.Duration
}

func newStatusError(res *http.Response) error {
	e := &statusError{status: res.StatusCode}
	var body struct {
		Error struct {
			Type, Code any
		} `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&body) == nil {
		for _, v := range []any{body.Error.Code, body.Error.Type} {
			if s, ok := v.(string); ok && isName(s) {
				e.kind = s
				break
			}
		}
	}
	e.after = parseRetryAfter(res.Header.Get("Retry-After"))
	return e
}

// parseRetryAfter reads seconds or a date (RFC 9110, section 10.2.3), an hour at most; 0 where it is neither.
func parseRetryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), time.Hour)
	}
	return 0
}

// isName reports whether s is an identifier, such as rate_limit_exceeded, and so no words about a text.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == ""
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("embed: the server answered %d %s", e.status, http.StatusText(e.status))
	if e.kind != "" {
		text += ", " + e.kind
	}
	return text
}

// Permanent reports whether the server refuses the texts themselves.
func (e *statusError) Permanent() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusRequestEntityTooLarge || e.status == http.StatusUnprocessableEntity
}

// RetryAfter is how long the server asks to wait, an hour at most.
func (e *statusError) RetryAfter() time.Duration { return e.after }
