package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/leaktest"
	"github.com/tidemark-go/tidemark/internal/servicetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestEvolution tells the story on both brokers.
func TestEvolution(t *testing.T) {
	for name, address := range map[string]func(*testing.T) (url, admin string){
		"in process": func(*testing.T) (string, string) { return "", "" },
		"pulsar": func(t *testing.T) (string, string) {
			t.Helper()
			return servicetest.Env(t, "PULSAR_URL"), servicetest.Env(t, "PULSAR_ADMIN_URL")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, admin := address(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var out bytes.Buffer
			if err := run(ctx, &out, url, admin); err != nil {
				t.Fatalf("%v after\n%s", err, &out)
			}
			for _, line := range []string{
				"billing   (OrderV1)  o-1 of Ann, 1250 cents, coupon SPRING",
				"analytics (OrderV2)  o-1 of Ann, 1250 cents, in EUR, no note",
				"the registry: compatible",
				"billing   (OrderV1)  o-2 of Bob, 990 cents, coupon none",
				"analytics (OrderV2)  o-2 of Bob, 990 cents, in CHF, note gift",
				"strategy FULL",
				"its messages have version 0 again",
				"billing   (OrderV1)  o-3 of Cleo, 4200 cents, coupon none",
				"privacy   (OrderV4)  o-4, 100 cents, in EUR",
				"to the dead letters: pulsarx: the writer's Avro schema does not resolve: customer",
				"version 2  ",
			} {
				if !strings.Contains(out.String(), line) {
					t.Errorf("%q is missing in\n%s", line, &out)
				}
			}
		})
	}
}
