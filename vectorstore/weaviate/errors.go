package weaviate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-go/tidemark/vectorstore"
)

var (
	// ErrClosed says that the Store was closed.
	ErrClosed = errors.New("weaviate: closed")
	// ErrCollection says that a collection that is there differs from what the options ask for; a [CollectionError] lists
	// every difference. Also: a collection of the same name in other letter case is in the way.
	ErrCollection = errors.New("weaviate: collection does not fit")
)

// Difference is where a collection is not what the options ask for.
type Difference struct {
	// Field is what differs, such as "vector text_vector: distance" or "property price: type".
	Field string
	// Have is what the server has, empty where it has nothing. Want is what the options ask for.
	Have, Want string
}

func (d Difference) String() string {
	if d.Have == "" {
		return fmt.Sprintf("%s is missing; want %s", d.Field, d.Want)
	}
	return fmt.Sprintf("%s is %s; want %s", d.Field, d.Have, d.Want)
}

// CollectionError lists every way in which a collection differs and cannot be changed. It is [ErrCollection] and permanent.
type CollectionError struct {
	Collection, Address string
	Differences         []Difference
}

// Error has a line for each difference.
func (e *CollectionError) Error() string {
	text := fmt.Sprintf("%v: %s at %s:", ErrCollection, e.Collection, e.Address)
	for _, d := range e.Differences {
		text += "\n\t" + d.String()
	}
	return text
}

// Unwrap returns [ErrCollection].
func (e *CollectionError) Unwrap() error { return ErrCollection }

// Permanent returns true.
func (e *CollectionError) Permanent() bool { return true }

// callError is a request that failed as a whole. The gRPC status is found with status.FromError, and errors.Is finds
// context.DeadlineExceeded and context.Canceled, which the status alone does not offer.
type callError struct {
	op, address string
	err         error
	cause       error // of package context, or nil
}

func (e *callError) Error() string {
	return fmt.Sprintf("weaviate: %s at %s: %v", e.op, e.address, e.err)
}

func (e *callError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.err}
	}
	return []error{e.err, e.cause}
}

func newCallError(ctx context.Context, op, address string, err error) error {
	cause := ctx.Err()
	if cause == nil && (status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)) {
		cause = context.DeadlineExceeded
	}
	return &callError{op: op, address: address, err: err, cause: cause}
}

// objectError names the object of err.
func objectError(id vectorstore.ID, err error) error {
	return fmt.Errorf("weaviate: object %s: %w", id, err)
}

// refusals are words of the server's answers that concern an object by itself: it would be refused again. Weaviate
// has no codes for them. All other answers, known or not, count as faults that pass. So does a vector that the
// collection is said not to have, since the Store knows the vectors: the collection was dropped, or made anew by
// auto-schema.
var refusals = []string{
	"property '",
	"invalid cref",
	"invalid id",
	"invalid UUID",
	"no such prop",
	"vector dimensions do not match",
	"new node has a vector with length",
	"vector lengths don't match",
	"reserved property name",
	"not a valid property name",
	"unrecognized data type",
}

// serverError is the error for what the server said about an object.
func serverError(text string) error {
	err := fmt.Errorf("server: %s", shorten(text))
	if !refused(text) {
		return err
	}
	if strings.Contains(text, "property '") {
		err = fmt.Errorf("%w: %w", vectorstore.ErrValue, err)
	} else if strings.Contains(text, "vector") {
		err = fmt.Errorf("%w: %w", vectorstore.ErrVector, err)
	}
	return vectorstore.Permanent(err)
}

func refused(text string) bool {
	for _, words := range refusals {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// tooLarge reports whether err says that a message is too large. Newer servers answer with the same code when a usage
// limit is reached, so the text decides.
func tooLarge(err error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "message") &&
		strings.Contains(s.Message(), "larger than max")
}

// quotes are words of the server's answers that a value follows.
var quotes = []string{"given value", "array value:", "JSON number '"}

// shorten bounds a text of the server, and leaves out the values that it quotes.
func shorten(text string) string {
	const most = 300
	for _, words := range quotes {
		if before, _, found := strings.Cut(text, words); found {
			text = before + words + " ..."
		}
	}
	if len(text) > most { // the cause stands at the end
		text = strings.ToValidUTF8(text[:most/2], "") + " ... " + strings.ToValidUTF8(text[len(text)-most/2:], "")
	}
	return text
}
