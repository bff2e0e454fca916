package weaviate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestEndpoints(t *testing.T) {
	for _, tt := range []struct{ http, grpc, wantHTTP, wantGRPC string }{
		{"localhost:8080", "localhost:50051", "plain localhost:8080", "plain localhost:50051"},
		{"localhost", "", "plain localhost:8080", "plain localhost:50051"},
		{"http://wv:8080/", "", "plain wv:8080", "plain wv:50051"},
		{"http://wv", "http://wv:1", "plain wv:80", "plain wv:1"},
		{"https://wv/base", "", "TLS wv:443/base", "TLS wv:50051"},
		{"https://wv", "https://grpc-wv", "TLS wv:443", "TLS grpc-wv:443"},
		{"https://wv", "grpc://wv", "TLS wv:443", "plain wv:50051"},
		{"http://wv", "grpcs://wv:7", "plain wv:80", "TLS wv:7"},
		{"[::1]:8080", "http://[::1]:5", "plain [::1]:8080", "plain [::1]:5"},
	} {
		http, grpc, err := Options{HTTP: tt.http, GRPC: tt.grpc, Collection: "a"}.withDefaults().endpoints()
		show := func(e endpoint) string {
			return map[bool]string{true: "TLS ", false: "plain "}[e.secure] + e.address() + e.path
		}
		if err != nil || show(http) != tt.wantHTTP || show(grpc) != tt.wantGRPC {
			t.Errorf("%q and %q: %s and %s, %v", tt.http, tt.grpc, show(http), show(grpc), err)
		}
	}
}

func TestOptionFaults(t *testing.T) {
	good := Options{HTTP: "localhost", Collection: "product"}
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no HTTP":           {func(o *Options) { o.HTTP = "" }, "HTTP: is required"},
		"scheme":            {func(o *Options) { o.HTTP = "ftp://a" }, "scheme"},
		"password":          {func(o *Options) { o.HTTP = "http://user:secret@a" }, "HTTP: is not"},
		"path for gRPC":     {func(o *Options) { o.GRPC = "http://a/b" }, "path"},
		"no collection":     {func(o *Options) { o.Collection = "" }, "Collection"},
		"collection":        {func(o *Options) { o.Collection = "My-Wiki" }, "Collection"},
		"long collection":   {func(o *Options) { o.Collection = strings.Repeat("a", 246) }, "at most 245"},
		"other letters":     {func(o *Options) { o.Collection = "Épicerie" }, `Collection: "Épicerie"`},
		"digit":             {func(o *Options) { o.Collection = "1a" }, "Collection"},
		"vector":            {func(o *Options) { o.Vectors = []Vector{{Name: "a b"}} }, "Vectors"},
		"two vectors":       {func(o *Options) { o.Vectors = []Vector{{Name: "a"}, {Name: "a"}} }, "twice"},
		"multi, dot":        {func(o *Options) { o.Vectors = []Vector{{Name: "a", Multi: true, Distance: Dot}} }, "Multi"},
		"multi, flat":       {func(o *Options) { o.Vectors = []Vector{{Name: "a", Multi: true, Index: Flat}} }, "Multi"},
		"Muvera alone":      {func(o *Options) { o.Vectors = []Vector{{Name: "a", Muvera: true}} }, "Muvera"},
		"dimensions":        {func(o *Options) { o.Vectors = []Vector{{Name: "a", Dimensions: -1}} }, "dimensions"},
		"id":                {func(o *Options) { o.Properties = []Property{{Name: "id", DataType: Int}} }, "reserved"},
		"suffix":            {func(o *Options) { o.Properties = []Property{{Name: "a_temp", DataType: Int}} }, "reserves"},
		"own property":      {func(o *Options) { o.Properties = []Property{{Name: "tidemark_version", DataType: Text}} }, "reserved"},
		"upper case":        {func(o *Options) { o.Properties = []Property{{Name: "Price", DataType: Int}} }, `"price"`},
		"type":              {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: "blobHash"}} }, "not supported"},
		"blobs":             {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: "blob[]"}} }, "not supported"},
		"no nested":         {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: Object}} }, "nested"},
		"nested in text":    {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: Text, Nested: []Property{{}}}} }, "nested"},
		"timeout":           {func(o *Options) { o.ReadTimeout = -2 }, "ReadTimeout"},
		"connect timeout":   {func(o *Options) { o.ConnectTimeout = -1 }, "ConnectTimeout"},
		"retries":           {func(o *Options) { o.Retries = -2 }, "Retries"},
		"batch":             {func(o *Options) { o.MaxBatch = -1 }, "MaxBatch"},
		"key in plain text": {func(o *Options) { o.HTTP, o.APIKey = "http://wv:8080", "k" }, "wv:8080 in plaintext"},
		"key for gRPC":      {func(o *Options) { o.HTTP, o.GRPC, o.APIKey = "https://wv", "grpc://wv:5", "k" }, "wv:5 in plaintext"},
		"key":               {func(o *Options) { o.APIKey = "sec\nret" }, "header"},
		"token in plain":    {func(o *Options) { o.HTTP, o.Token = "http://wv", token("secret") }, "in plaintext"},
		"key and token":     {func(o *Options) { o.APIKey, o.Token = "k", token("secret") }, "Token"},
		"in flight":         {func(o *Options) { o.MaxInFlight = -1 }, "MaxInFlight"},
		"consistency":       {func(o *Options) { o.ReadConsistency = "TWO" }, "ReadConsistency"},
		"distance":          {func(o *Options) { o.Vectors = []Vector{{Name: "a", Distance: "far"}} }, "distance"},
		"index":             {func(o *Options) { o.Vectors = []Vector{{Name: "a", Index: "tree"}} }, "index"},
		"quantizer":         {func(o *Options) { o.Vectors = []Vector{{Name: "a", Quantizer: "zip"}} }, "quantizer"},
		"flat with ef":      {func(o *Options) { o.Vectors = []Vector{{Name: "a", Index: Flat, EF: 1}} }, "index hnsw"},
		"factor":            {func(o *Options) { o.Replication.Factor = -1 }, "Replication"},
		"strategy":          {func(o *Options) { o.Replication.DeletionStrategy = "none" }, "Replication"},
		"tokens of an int":  {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: Int, Tokenization: Word}} }, "Tokenization"},
		"range of a text":   {func(o *Options) { o.Properties = []Property{{Name: "a", DataType: Text, RangeFilter: true}} }, "RangeFilter"},
	} {
		o := good
		tt.change(&o)
		_, err := New(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, tt.want)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec\nret") {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
	all := Options{HTTP: "ftp://a", Collection: "1", MaxBatch: -1, ReadTimeout: -9}
	_, err := New(context.Background(), all)
	for _, want := range []string{"HTTP", "Collection", "MaxBatch", "ReadTimeout"} {
		if err == nil || !strings.Contains(err.Error(), "option "+want) {
			t.Errorf("of all faults, %s is missing: %v", want, err)
		}
	}
	for name, o := range map[string]Options{
		"loopback": {HTTP: "http://127.0.0.9:1", APIKey: "k", Collection: "a"},
		"TLS":      {HTTP: "https://wv", APIKey: "k", Collection: "a"},
		"allowed":  {HTTP: "http://wv", APIKey: "k", Collection: "a", PlaintextKey: true},
	} {
		if _, _, err := o.withDefaults().endpoints(); err != nil {
			t.Errorf("key, %s: %v", name, err)
		}
	}
}

// token returns a source of one token.
func token(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// refusing returns an address where nothing listens.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silent returns an address that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestUnreachable(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/.well-known/ready" {
			http.Error(w, `{"error":[{"message":"no such place"}]}`, http.StatusNotFound)
		}
	}))
	t.Cleanup(ready.Close)
	starting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(starting.Close)
	moved := httptest.NewServer(http.RedirectHandler(ready.URL+"/v1/.well-known/ready", http.StatusMovedPermanently))
	t.Cleanup(moved.Close)
	down, mute := refusing(t), silent(t)
	for name, tt := range map[string]struct {
		http, grpc string
		want       []string
	}{
		"REST refuses":     {down, down, []string{down, "REST", "refused"}},
		"REST is silent":   {mute, mute, []string{mute, "REST"}},
		"REST is starting": {starting.URL, down, []string{strings.TrimPrefix(starting.URL, "http://"), "503", "starting"}},
		"REST has moved":   {moved.URL, down, []string{strings.TrimPrefix(moved.URL, "http://"), "301"}},
		"gRPC refuses":     {ready.URL, down, []string{down, "gRPC", "refused"}},
		"gRPC is silent":   {ready.URL, mute, []string{mute, "gRPC"}},
		"gRPC is REST":     {ready.URL, ready.URL, []string{strings.TrimPrefix(ready.URL, "http://"), "gRPC"}},
	} {
		t.Run(name, func(t *testing.T) { testUnreachable(t, Options{HTTP: tt.http, GRPC: tt.grpc}, tt.want...) })
	}
}

// testUnreachable opens a Store that cannot be, until the error says all that it should: a busy machine may need more time to find that out.
func testUnreachable(t *testing.T, o Options, want ...string) {
	t.Helper()
	o.Collection = "a"
	for o.ConnectTimeout = 300 * time.Millisecond; ; o.ConnectTimeout *= 2 {
		start := time.Now()
		_, err := New(context.Background(), o)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("error %v, want one line", err)
		}
		if took := time.Since(start); took > o.ConnectTimeout+patience {
			t.Errorf("took %v of %v", took, o.ConnectTimeout)
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.Contains(err.Error(), s) })
		if len(missing) == 0 {
			return
		}
		if o.ConnectTimeout > patience/4 {
			t.Fatalf("error %v does not say %q", err, missing)
		}
	}
}

// TestTLS: certificates are verified on both connections.
func TestTLS(t *testing.T) {
	rest := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/.well-known/ready" {
			http.Error(w, `{"error":[{"message":"beyond `+r.Header.Get("Authorization")+`"}]}`, http.StatusTeapot)
		}
	}))
	rest.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail on purpose
	rest.StartTLS()
	t.Cleanup(rest.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: rest.TLS.Certificates})))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	known := x509.NewCertPool()
	known.AddCert(rest.Certificate())
	address := listener.Addr().String()
	o := Options{HTTP: rest.URL, GRPC: "https://" + address, APIKey: "key"}
	testUnreachable(t, o, "REST", "certificate")
	o.TLS = &tls.Config{RootCAs: known}
	testUnreachable(t, o, "beyond Bearer key") // both certificates are known, so that the error is of what comes after
	other := Options{TLS: &tls.Config{ServerName: "elsewhere.invalid", RootCAs: known}, ConnectTimeout: patience}
	rpc, err := parseEndpoint("https://"+address, "", true)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(other, endpoint{host: "127.0.0.1", port: "1"}, rpc)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close() //nolint:errcheck // the test is over
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(c.grpc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil || !strings.Contains(err.Error(), "elsewhere.invalid") {
		t.Errorf("a certificate of another name: %v", err)
	}
}
