package servicetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// cleanupTimeout bounds what is put right after a test.
const cleanupTimeout = 30 * time.Second

// Postgres makes an empty database for this test on the server at POSTGRES_URL and returns its URL; the user in it may do
// anything, logical replication included. After the test its replication slots and then the database itself are dropped,
// whoever is still connected. Without POSTGRES_URL the test is skipped, as Env says.
func Postgres(t testing.TB) string {
	t.Helper()
	server := Env(t, "POSTGRES_URL")
	location, err := url.Parse(server)
	if err != nil {
		t.Fatal("POSTGRES_URL is not a URL")
	}
	name := Name(t)
	if err := execute(t.Context(), server, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := dropDatabase(ctx, server, name); err != nil {
			t.Errorf("drop the database %s: %v", name, err)
		}
	})
	location.Path = "/" + name
	return location.String()
}

// Name returns a name that no other test has, now or later: of at most 48 bytes of a-z, 0-9 and _, beginning with a letter. It
// fits a database, a replication slot, a topic and a subscription.
func Name(t testing.TB) string {
	t.Helper()
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
	}, t.Name())
	return fmt.Sprintf("t_%.32s_%s", name, hex.EncodeToString(random[:]))
}

// dropDatabase drops a database that may still have replication slots, in use or not: the server refuses that otherwise.
func dropDatabase(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		// A slot is free some moments after its connection has been told to end.
		var slots int
		err := conn.QueryRow(ctx, `
			SELECT count(pg_terminate_backend(active_pid)) + count(*) FILTER (WHERE active_pid IS NULL)
			FROM pg_replication_slots WHERE database = $1`, name).Scan(&slots)
		if err != nil {
			return err
		}
		if slots == 0 {
			break
		}
		_, err = conn.Exec(ctx, `
			SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1 AND NOT active`, name)
		if err != nil {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

func execute(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
