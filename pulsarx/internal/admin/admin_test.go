package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func connect(t *testing.T, o admin.Options) *admin.Client {
	t.Helper()
	c, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestDo(t *testing.T) {
	token := "first"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode([]string{r.Method, r.URL.String(), string(body), r.Header.Get("Authorization")})
	})
	c := connect(t, admin.Options{URL: s.URL, Auth: auth.NewAuthenticationTokenFromSupplier(func() (string, error) {
		if token == "" {
			return "", errors.New("no token today")
		}
		return token, nil
	})})
	for _, want := range []string{
		`["PUT","/admin/v2/namespaces/a/b%2Fc?x=1","{\"n\":1}","Bearer first"]`,
		`["PUT","/admin/v2/namespaces/a/b%2Fc?x=1","{\"n\":1}","Bearer second"]`, // asked for each request
	} {
		var answer []byte
		err := c.Do(t.Context(), "PUT", admin.Path("namespaces", "a", "b/c")+"?x=1", map[string]int{"n": 1}, &answer)
		if err != nil || strings.TrimSpace(string(answer)) != want {
			t.Errorf("%s %v", answer, err)
		}
		token = "second"
	}
	var parts []string
	if err := c.Do(t.Context(), "GET", "/x", nil, &parts); err != nil || parts[2] != "" {
		t.Error(parts, err)
	}
	token = ""
	if err := c.Do(t.Context(), "GET", "/x", nil, nil); err == nil || !strings.Contains(err.Error(), "no token today") {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/admin/v2/json":
			w.WriteHeader(http.StatusConflict)
			write(w, `{"reason":"it exists"}`)
		case "/admin/v2/html":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			write(w, "<html>x</html>")
		case "/admin/v2/text":
			w.WriteHeader(http.StatusPreconditionFailed)
			write(w, strings.Repeat("x", 5000))
		case "/admin/v2/trace":
			w.WriteHeader(http.StatusInternalServerError)
			write(w, `{"reason":"\n --- An unexpected error occurred in the server ---\n\nMessage: &quot;a&quot; is bad\n\nStacktrace:\n\nat x"}`)
		case "/admin/v2/nothing":
			w.WriteHeader(http.StatusNoContent)
		default:
			write(w, "{")
		}
	})
	c := connect(t, admin.Options{URL: s.URL})
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"/json":    {409, "admin GET /json: 409 it exists"},
		"/html":    {404, "404 Not Found"},
		"/text":    {412, "xxx..."},
		"/trace":   {500, `500 "a" is bad`},
		"/nothing": {},
		"/broken":  {0, "the answer"},
	} {
		var out map[string]any
		err := c.Do(t.Context(), "GET", path, nil, &out)
		if admin.Status(err) != want.status || want.says == "" && err != nil || want.says != "" && (err == nil || !strings.Contains(err.Error(), want.says)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(ctx, "GET", "/json", nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHosts: a host that does not answer is passed over; one that refuses is not.
func TestHosts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	_ = l.Close()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { write(w, `"here"`) })
	var out string
	c := connect(t, admin.Options{URL: "http://" + dead + "," + strings.TrimPrefix(s.URL, "http://")})
	if err := c.Do(t.Context(), "GET", "/x", nil, &out); err != nil || out != "here" {
		t.Error(out, err)
	}
	c = connect(t, admin.Options{URL: "http://" + dead})
	if err := c.Do(t.Context(), "GET", "/x", nil, &out); err == nil || !strings.Contains(err.Error(), dead) {
		t.Error(err)
	}
	for _, url := range []string{"", "pulsar://x", "http://"} {
		if _, err := admin.New(admin.Options{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}

// TestRedirect: brokers send a call on to the owner of a namespace; body and credentials go along.
func TestRedirect(t *testing.T) {
	owner := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode([]string{string(body), strings.Join(r.Header["Authorization"], ",")})
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, owner.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	c := connect(t, admin.Options{URL: s.URL, Auth: auth.NewAuthenticationToken("t")})
	var got []string
	if err := c.Do(t.Context(), "POST", "/x", "body", &got); err != nil || got[0] != `"body"` || got[1] != "Bearer t" {
		t.Error(got, err)
	}
}
