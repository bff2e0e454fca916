package cdc

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Position orders the changes of one key of one source.
//
// Epoch comes first: it counts the failovers and restores of the source, after which log positions may start anew. Then comes LSN,
// where both changes have one, then Offset: the place of the message in its partition (ledger, entry and batch index as hex digits of
// fixed width, when it comes from pulsarx). Changes with equal LSNs are different changes (a primary-key change writes two, COPY
// writes many), so equal LSNs never make two positions equal.
//
// Offsets are ordered within one partition only. All changes of a key are in one partition, so that comparing positions of the same
// key is safe; comparing across keys is safe where the caller knows that both came through the same partition.
type Position struct {
	// Epoch is Options.Epoch of the decoder.
	Epoch uint32
	// LSN is Source.LSN; 0 where the event has none, as the rows of incremental snapshots.
	LSN uint64
	// Offset is Record.Offset, compared bytewise.
	Offset string
}

// Compare returns -1, 0 or +1 as p is before, at or after q, and whether that is known, because the two are comparable.
//
//   - Different epochs: the epoch decides.
//   - Two different LSNs: the LSN decides.
//   - Otherwise, that is when the LSNs are equal or at least one of the two has none: Offset decides, if both have one.
//   - Two positions with equal LSNs and no offset at all are equal.
//   - Everything else is not comparable: the result is 0, false. The zero Position is not comparable even with itself.
//
// Among positions of which some have an LSN and some do not, the order is not transitive when a source repeats old changes: the
// repeated change has the older LSN and the newer offset. So compare with the newest position that is known for the key; do not sort.
func (p Position) Compare(q Position) (order int, known bool) {
	switch {
	case p.Epoch != q.Epoch:
		return cmp.Compare(p.Epoch, q.Epoch), true
	case p.LSN != 0 && q.LSN != 0 && p.LSN != q.LSN:
		return cmp.Compare(p.LSN, q.LSN), true
	case p.Offset != "" && q.Offset != "":
		return strings.Compare(p.Offset, q.Offset), true
	case p.Offset == "" && q.Offset == "" && p.LSN != 0 && p.LSN == q.LSN:
		return 0, true
	}
	return 0, false
}

// The widths of the epoch and the LSN in a position's text, in hex digits.
const (
	epochDigits = 8
	lsnDigits   = 16
)

// String returns the position as text: epoch and LSN as 8 and 16 hex digits and the offset, joined by hyphens. ParsePosition reads it
// back. Texts of positions that have an LSN are ordered bytewise as the positions are, and so are those of positions that have none.
func (p Position) String() string {
	return fmt.Sprintf("%0*x-%0*x-%s", epochDigits, p.Epoch, lsnDigits, p.LSN, p.Offset)
}

// errPosition does not repeat the text: it may be somebody's data.
var errPosition = errors.New("cdc: not a position: want 8 and 16 hex digits and an offset, joined by hyphens")

// ParsePosition reads what String wrote.
func ParsePosition(text string) (Position, error) {
	const lsnAt, offsetAt = epochDigits + 1, epochDigits + 1 + lsnDigits + 1
	if len(text) < offsetAt || text[lsnAt-1] != '-' || text[offsetAt-1] != '-' {
		return Position{}, errPosition
	}
	epoch, err := strconv.ParseUint(text[:lsnAt-1], 16, 32)
	if err != nil {
		return Position{}, errPosition
	}
	lsn, err := strconv.ParseUint(text[lsnAt:offsetAt-1], 16, 64)
	if err != nil {
		return Position{}, errPosition
	}
	p := Position{Epoch: uint32(epoch), LSN: lsn, Offset: text[offsetAt:]}
	if p.String() != text { // signs, underscores, capitals
		return Position{}, errPosition
	}
	return p, nil
}
