package pulsarx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/internal/itemerror"
)

var (
	// ErrClosed says that the client, producer or consumer was closed before the call, or before a message had its outcome.
	ErrClosed = errors.New("pulsarx: closed")
	// ErrIncompatibleSchema says that the broker refuses a producer's schema beside the schemas that the topic already has, or
	// does not let producers change the schema. The error's text holds the broker's reason.
	ErrIncompatibleSchema = errors.New("pulsarx: incompatible schema")
	// ErrSecondRun is what Consumer.Run returns when it has been called before: a consumer runs once.
	ErrSecondRun = errors.New("pulsarx: a consumer runs once")
	// ErrDrainTimeout says that handlers were still running when ConsumerOptions.DrainTimeout had passed after Run was stopped.
	// What they worked on is not acknowledged.
	ErrDrainTimeout = errors.New("pulsarx: handlers still running after the drain timeout")
	// ErrSendTimeout says that a message had no outcome within ProducerOptions.SendTimeout, or that earlier ones had none and the
	// broker turned out to have lost the producer, which is made anew. The message may or may not be in the topic.
	ErrSendTimeout = errors.New("pulsarx: send timed out")
	// ErrQueueFull says that ProducerOptions.MaxPending messages were on their way, or the client's memory was full, and FailWhenFull
	// is set. The message was not sent.
	ErrQueueFull = errors.New("pulsarx: the queue of messages on their way is full")
	// ErrMessageTooLarge says that a message is larger than the broker takes, or may be. It was not sent.
	ErrMessageTooLarge = errors.New("pulsarx: message too large")
	// ErrTopicTerminated says that the topic was terminated: it takes no messages any more.
	ErrTopicTerminated = errors.New("pulsarx: topic terminated")
	// ErrNonPersistent says that a non-persistent topic cannot do what was asked of it.
	ErrNonPersistent = errors.New("pulsarx: not on a non-persistent topic")
	// ErrPersistent says that only non-persistent topics have what was asked for.
	ErrPersistent = errors.New("pulsarx: not on a persistent topic")
	// ErrDecryption says that a message is encrypted, and that ClientOptions.Encryption has no key that opens it; which ones it asked
	// for and why they did not do is in the error's text.
	ErrDecryption = errors.New("pulsarx: cannot decrypt the message at")
	// ErrGap is what Replay returns when messages that were there when it began cannot be read any more, or may have been missed, because the
	// topic was trimmed, truncated or deleted meanwhile.
	ErrGap = errors.New("pulsarx: messages vanished while they were replayed")
	// ErrNoTopic says that a topic to replay, or one of dead letters to redrive, does not exist.
	ErrNoTopic = errors.New("pulsarx: no such topic")
)

// Permanent marks err as one that no retry mends: the consumer sends the message to the dead-letter topic without further
// attempts. It returns nil for nil.
func Permanent(err error) error { return itemerror.Permanent(err) }

// BatchError is what a Handler returns when only some messages of a batch failed: one place a message, nil where it is done.
// Return it through Err, so that a batch without failures is nil.
type BatchError []error

// Error says how many messages failed, and the first failure with its place.
func (e BatchError) Error() string { return itemerror.Text("pulsarx", "messages", e) }

// ItemErrors returns the errors, aligned with the batch.
func (e BatchError) ItemErrors() []error { return e }

// Err returns e, or nil if no place of it holds an error.
func (e BatchError) Err() error {
	if len(itemerror.Failed(e)) == 0 {
		return nil
	}
	return e
}

// inspect calls what will be asked of an error of a handler or decoder, where a panic is recovered: a nil pointer in an error, for
// one, panics when it is asked for its text.
func inspect(err error) {
	if err == nil {
		return
	}
	_, _, _ = err.Error(), errorType(err), itemerror.IsPermanent(err)
	var items interface{ ItemErrors() []error }
	if errors.As(err, &items) {
		for _, item := range items.ItemErrors() {
			if item != nil {
				_, _ = item.Error(), itemerror.IsPermanent(item)
			}
		}
	}
}

// panicError is the panic of a handler, decoder or processor, recovered.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recovering calls a function of the user's, and makes an error of its panic.
func recovering(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError{p}
		}
	}()
	return f()
}

// returning is recovering for a function with a result.
func returning[T any](f func() (T, error)) (result T, err error) {
	err = recovering(func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// clientError names what was attempted and where, and gives the sentinel for what the client says only in words.
func clientError(what, url string, err error) error {
	switch text := err.Error(); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case strings.Contains(text, "IncompatibleSchema"), strings.Contains(text, "schema auto updating is disabled"):
		err = fmt.Errorf("%w: %w", ErrIncompatibleSchema, err)
	}
	return fmt.Errorf("pulsarx: %s at %s: %w", what, url, oneLineError{err})
}

// oneLineError is an error of the client, which joins several by line breaks.
type oneLineError struct{ error }

func (e oneLineError) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }

func (e oneLineError) Unwrap() error { return e.error }
