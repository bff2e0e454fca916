package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/tidemark-go/tidemark/cdc"
	"github.com/tidemark-go/tidemark/pulsarx"
)

// pause is how long a followed topic is left alone at its end.
const pause = 200 * time.Millisecond

// readTopic prints a topic's events to the end that it has, or until it is interrupted. It subscribes to nothing and acknowledges nothing.
func readTopic(ctx context.Context, c config, p *printer, complain func(error)) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: c.pulsar, Token: os.Getenv("PULSAR_JWT_TOKEN")})
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	// Whatever a message holds, Replay goes on: its error is printed by the handler, in order.
	raw := pulsarx.DecodeFunc(func(r pulsarx.Raw) (cdc.Record, error) { return cdc.Record(r), nil })
	show := func(_ context.Context, batch []pulsarx.Message[cdc.Record]) error {
		for _, m := range batch {
			err := p.print(m.Value)
			var broken *outputError
			if errors.As(err, &broken) {
				return err
			}
			if err != nil {
				complain(fmt.Errorf("%s, partition %d, message %s: %w", m.Topic, m.Partition, m.Value.Offset, err))
			}
		}
		return p.flush()
	}
	options := pulsarx.ReplayOptions{Topics: []string{c.topic}}
	options.Progress = func(progress pulsarx.Progress) { options.From = progress.Position }
	for {
		err := pulsarx.Replay(ctx, client, raw, options, show)
		switch {
		case ctx.Err() != nil:
			return nil // interrupted
		case err != nil || !c.follow:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
