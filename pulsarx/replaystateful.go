package pulsarx

import "context"

// ReplayStateful gives the messages of a replay to processors of the same factory that RunStateful takes, one for each partition, and
// what they emit to emit: for one partition, the values that a RunStateful from the same place publishes, in the same order. It keeps
// no checkpoints, and publishes nothing. emit is called by one goroutine.
//
// What RunStateful sends to the dead letters is passed over here too, so that the results are the same: what cannot be decoded, unless
// ReplayOptions.OnDecodeError says otherwise, and what Process calls permanent. The client's Logger hears of it.
//
// It ends as Replay does; another error or a panic of a processor, or an error of emit, ends it too, and names the message.
func ReplayStateful[In, Out any](
	ctx context.Context, c *Client, d Decoder[In], o ReplayOptions,
	p func(Partition) (Processor[In, Out], error), emit func(Out) error,
) error {
	passOver := func(topic string, partition int, at string, err error) {
		if l := c.options.Logger; l != nil {
			l.Warn("pulsarx: a message is passed over", "topic", topic, "partition", partition, "offset", at, "error", err)
		}
	}
	if o.OnDecodeError == nil {
		o.OnDecodeError = func(r Raw, err error) error {
			passOver(r.Topic, r.Partition, r.Offset, err)
			return nil
		}
	}
	processors := map[Partition]Processor[In, Out]{}
	work := func(m Message[In]) error {
		at := Partition{m.Topic, m.Partition}
		processor := processors[at]
		if processor == nil {
			var err error
			if processor, err = p(at); err != nil {
				return err
			}
			processors[at] = processor
		}
		err, permanent := process(processor, m, emit)
		if permanent != nil {
			passOver(m.Topic, m.Partition, offset(m.ID), permanent)
		}
		return err
	}
	return Replay(ctx, c, d, o, func(_ context.Context, batch []Message[In]) error {
		for i := range batch {
			if err := work(batch[i]); err != nil {
				errs := make(BatchError, len(batch))
				errs[i] = err
				return errs
			}
		}
		return nil
	})
}
