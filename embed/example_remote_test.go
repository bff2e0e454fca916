package embed_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/embed"
	"github.com/tidemark-go/tidemark/embed/embedtest"
)

// redisCache is an [embed.Remote] on a Redis or Valkey server.
type redisCache struct{ client *redis.Client }

// newRedisCache connects when it is first asked. The embedder is at hand: nothing here is worth a long wait or a second try.
func newRedisCache(address string) redisCache {
	return redisCache{redis.NewClient(&redis.Options{
		Addr:                  address,
		DialTimeout:           200 * time.Millisecond,
		DialerRetries:         1, // the default is 5, 100 ms apart
		ReadTimeout:           300 * time.Millisecond,
		WriteTimeout:          300 * time.Millisecond,
		MaxRetries:            -1,
		ContextTimeoutEnabled: true, // CacheOptions.RemoteTimeout bounds all of a request
	})}
}

func (r redisCache) Get(ctx context.Context, keys []string) ([][]byte, error) {
	found, err := r.client.MGet(ctx, keys...).Result()
	values := make([][]byte, len(found))
	for i, value := range found {
		if s, ok := value.(string); ok {
			values[i] = []byte(s)
		}
	}
	return values, err
}

func (r redisCache) Set(ctx context.Context, keys []string, values [][]byte, ttl time.Duration) error {
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			p.Set(ctx, key, values[i], ttl)
		}
		return nil
	})
	return err
}

// Vectors in Redis: looked for are the memory, then Redis, then the model. Without Redis it is the memory and the model.
func ExampleRemote() {
	shared := newRedisCache(cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379"))
	defer shared.client.Close()
	texts := embed.NewCache(embedtest.New(3), embed.CacheOptions{Remote: shared, TTL: 7 * 24 * time.Hour})
	defer texts.Close()

	vectors, err := texts.Embed(context.Background(), []string{"tea", "coffee", "tea"})
	fmt.Println(len(vectors), "vectors, error", err)
}
