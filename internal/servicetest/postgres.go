package servicetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cleanupTimeout bounds what is put right after a test.
const cleanupTimeout = 2 * time.Minute

// Postgres makes an empty database for this test on the server at POSTGRES_URL and returns its URL; the user in it may do
// anything, logical replication included. After the test its replication slots and then the database itself are dropped,
// whoever is still connected. Without POSTGRES_URL the test is skipped, as Env says.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return database(tb, "POSTGRES_URL")
}

// Pgvector is Postgres on the server at PGVECTOR_URL, which has the extension vector to be created.
func Pgvector(tb testing.TB) string {
	tb.Helper()
	return database(tb, "PGVECTOR_URL")
}

// database makes an empty database on the server that an environment variable names.
func database(tb testing.TB, variable string) string {
	tb.Helper()
	server := Env(tb, variable)
	location, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("%s is not a URL", variable)
	}
	name := Name(tb)
	err = session(tb.Context(), server, func(conn *pgx.Conn) error {
		_, err := conn.Exec(tb.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		return err
	})
	if err != nil {
		tb.Fatalf("create a database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := dropDatabase(ctx, server, name); err != nil {
			tb.Errorf("drop the database %s: %v", name, err)
		}
	})
	location.Path = "/" + name
	return location.String()
}

// Name returns a name that no other test has, now or later: of at most 48 bytes of a-z, 0-9 and _, beginning with a letter. It
// fits a database, a replication slot, a topic and a subscription.
func Name(tb testing.TB) string {
	tb.Helper()
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails, by its documentation
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, tb.Name())
	return fmt.Sprintf("t_%.32s_%s", name, hex.EncodeToString(random[:]))
}

// dropDatabase drops a database with its replication slots. The server refuses that as long as a slot is in use, or a connection that was told
// to end has not ended.
func dropDatabase(ctx context.Context, server, name string) error {
	return session(ctx, server, func(conn *pgx.Conn) error {
		for {
			_, err := conn.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active", name)
			if err == nil {
				_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
			}
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != objectInUse {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// objectInUse is the code of Postgres' errors for what somebody uses.
const objectInUse = "55006"

// session connects to a database for as long as use runs.
func session(ctx context.Context, database string, use func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	return errors.Join(use(conn), conn.Close(context.WithoutCancel(ctx)))
}
