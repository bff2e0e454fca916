package embed_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

// The tests of this file run the Remote of ExampleRemote against a redis-server.

// newRedis is newRedisCache with timeouts that are long enough for a machine that is busy with tests.
func newRedis(t *testing.T, address string) redisCache {
	t.Helper()
	return closing(t, redisCache{redis.NewClient(&redis.Options{
		Addr: address, DialTimeout: time.Minute, DialerRetries: 1, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxRetries: -1,
	})})
}

func closing(t *testing.T, r redisCache) redisCache {
	t.Helper()
	t.Cleanup(func() { _ = r.client.Close() })
	return r
}

// sources returns the sums of a Cache's counters by the value of their attribute.
func sources(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				for _, key := range []attribute.Key{"embed.cache.source", "error.type"} {
					if v, has := p.Attributes.Value(key); has {
						sums[v.AsString()] += p.Value
					}
				}
			}
		}
	}
	return sums
}

// remoteCache is a new process, so to say: a Cache with an empty memory, around a model of its own.
func remoteCache(t *testing.T, o embed.CacheOptions) (*embed.Cache[string], *embedtest.Embedder[string], metric.Reader) {
	t.Helper()
	reader, model := metric.NewManualReader(), embedtest.New(8)
	o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	return newCache(t, model, o), model, reader
}

func TestRedis(t *testing.T) {
	t.Parallel()
	address, _ := servicetest.Redis(t)
	shared, texts := newRedis(t, address), []string{"tea", "coffee", "", "tea"}
	for _, ttl := range []time.Duration{0, -1, 90 * time.Second} {
		if err := shared.client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		o := embed.CacheOptions{Remote: shared, TTL: ttl, RemoteTimeout: time.Minute}
		first, _, _ := remoteCache(t, o)
		want, err := first.Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		second, model, reader := remoteCache(t, o)
		for range 2 { // from Redis, then from memory
			got, err := second.Embed(t.Context(), texts)
			if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("ttl %v: %v, want %v, error %v", ttl, got, want, err)
			}
		}
		if got := sources(t, reader); len(model.Inputs()) > 0 || !maps.Equal(got, map[string]int64{"remote": 3, "memory": 3}) {
			t.Errorf("ttl %v: embedded %q, counted %v", ttl, model.Inputs(), got)
		}
		keys := shared.client.Keys(t.Context(), "*").Val()
		if len(keys) != 3 || !strings.HasPrefix(keys[0], "tidemark:embed:") {
			t.Fatalf("keys %q", keys)
		}
		if left := shared.client.TTL(t.Context(), keys[0]).Val(); ttl > 0 && (left <= 0 || left > ttl) || ttl <= 0 && left < 20*time.Hour {
			t.Errorf("ttl %v: %v are left", ttl, left)
		}
	}
}

// TestRedisGarbage: what is no vector of the model is not delivered but replaced, and its neighbours are hits.
func TestRedisGarbage(t *testing.T) {
	t.Parallel()
	address, _ := servicetest.Redis(t)
	shared, texts := newRedis(t, address), []string{"tea", "coffee", "cocoa"}
	o := embed.CacheOptions{Remote: shared, RemoteTimeout: time.Minute}
	first, _, _ := remoteCache(t, o)
	want, err := first.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	keys := shared.client.Keys(t.Context(), "*").Val()
	good := shared.client.Get(t.Context(), keys[0]).Val()
	garbage := map[string]any{
		"empty": "", "a word": "rubbish", "cut short": good[:len(good)-4], "too long": good + "1234", "another version": "\x02" + good[1:],
		"a NaN": good[:1] + "\x00\x00\xc0\x7f" + good[5:], "zero": "\x01" + strings.Repeat("\x00", len(good)-1), "large": strings.Repeat("x", 1<<20+1),
		"a list": nil,
	}
	for name, value := range garbage {
		if err := shared.client.Del(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
		wrong := map[string]int64{"remote": 2, "embedder": 1, "value": 1}
		if value != nil {
			err = shared.client.Set(t.Context(), keys[0], value, 0).Err()
		} else { // MGET has no value for it
			err = shared.client.LPush(t.Context(), keys[0], "x").Err()
			delete(wrong, "value")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, counts := range []map[string]int64{wrong, {"remote": 3}} {
			c, _, reader := remoteCache(t, o)
			got, err := c.Embed(t.Context(), texts)
			if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s: %v, want %v, error %v", name, got, want, err)
			}
			if got := sources(t, reader); !maps.Equal(got, counts) {
				t.Errorf("%s: counted %v, want %v", name, got, counts)
			}
		}
	}
}

// TestRedisDown: a server that ends costs three requests, and no vector.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	address, kill := servicetest.Redis(t)
	c, model, reader := remoteCache(t, embed.CacheOptions{Remote: newRedis(t, address), RemoteTimeout: time.Minute})
	if _, err := c.Embed(t.Context(), []string{"tea"}); err != nil {
		t.Fatal(err)
	}
	kill()
	took := embedEach(t, c, 20)
	got := sources(t, reader)
	if n := got["error"] + got["timeout"]; n < 3 || n > 3 && took < remotePause {
		t.Errorf("20 texts took %v, with %d failures", took, n)
	}
	if got["embedder"] != 21 || len(model.Inputs()) != 21 || got["remote"] > 0 {
		t.Errorf("counted %v", got)
	}
}

// TestRedisSilent: a server that accepts connections and never answers costs three timeouts, and no vector.
func TestRedisSilent(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	c, _, reader := remoteCache(t, embed.CacheOptions{Remote: closing(t, newRedisCache(listener.Addr().String()))})
	took := embedEach(t, c, 20)
	got := sources(t, reader)
	if n := got["timeout"]; n < 3 || n > 3 && took < remotePause {
		t.Errorf("20 texts took %v, with %d timeouts", took, n)
	}
	if got["embedder"] != 20 || got["error"] > 0 || got["remote"] > 0 {
		t.Errorf("counted %v", got)
	}
}

// remotePause is how long a Cache leaves a Remote alone.
const remotePause = 10 * time.Second

// embedEach embeds n texts one by one, and returns how long that took.
func embedEach(t *testing.T, c *embed.Cache[string], n int) time.Duration {
	t.Helper()
	start := time.Now()
	for i := range n {
		v, err := c.Embed(t.Context(), []string{fmt.Sprint(i)})
		if err != nil || len(v) != 1 || len(v[0]) != 8 {
			t.Fatalf("%v, error %v", v, err)
		}
	}
	return time.Since(start)
}

// TestExampleRemote runs the example with a server, which may be too slow for it on a busy machine.
func TestExampleRemote(t *testing.T) {
	address, _ := servicetest.Redis(t)
	t.Setenv("REDIS_ADDR", address)
	var n int64
	for range 20 {
		ExampleRemote()
		if n = newRedis(t, address).client.DBSize(t.Context()).Val(); n == 2 {
			return
		}
	}
	t.Errorf("%d vectors in Redis", n)
}
