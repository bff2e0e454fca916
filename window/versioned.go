package window

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errVersion says that an accumulator was written by a later version of the application than this one.
var errVersion = errors.New("window: accumulator of a later version")

// VersionedOf is made by Versioned.
type VersionedOf[V, A, R any] struct {
	Aggregator[V, A, R]
	version int
	migrate func(version int, src []byte, acc *A) error
}

// Versioned is g, whose accumulators are marked with a version of the application's, 1 or more, so that snapshots of an earlier version can
// be restored when the aggregate has become another. migrate gets the bytes that the earlier version's Append made, and fills acc with
// what they say; version 0 is what was written without Versioned. An error of it, and a version later than this, end the restoration.
//
// Its options and the assigner stay as they are: those of another are ErrSnapshotMismatch.
func Versioned[V, A, R any](version int, g Aggregator[V, A, R], migrate func(version int, src []byte, acc *A) error) VersionedOf[V, A, R] {
	return VersionedOf[V, A, R]{g, version, migrate}
}

// versionMark is no version of this package's accumulators, nor will one be.
const versionMark = 0xff

// Append appends the accumulator's bytes.
func (g VersionedOf[V, A, R]) Append(dst []byte, acc *A) []byte {
	return g.Aggregator.Append(binary.AppendUvarint(append(dst, versionMark), uint64(g.version)), acc)
}

// Decode reads what Append made, of this version or an earlier one.
func (g VersionedOf[V, A, R]) Decode(src []byte, acc *A) error {
	version := uint64(0)
	if len(src) > 0 && src[0] == versionMark {
		v, n := binary.Uvarint(src[1:])
		if n <= 0 || v == 0 {
			return errors.New("window: malformed version of an accumulator")
		}
		version, src = v, src[1+n:]
	}
	switch {
	case version == uint64(g.version):
		return g.Aggregator.Decode(src, acc)
	case version > uint64(g.version):
		return fmt.Errorf("%w: %d", errVersion, version)
	}
	if err := g.migrate(int(version), src, acc); err != nil {
		return fmt.Errorf("window: accumulator of version %d: %w", version, err)
	}
	return nil
}

// Rejects asks the aggregate, if it is a Rejecter.
func (g VersionedOf[V, A, R]) Rejects(v V) bool {
	r, ok := g.Aggregator.(Rejecter[V])
	return ok && r.Rejects(v)
}

// Sizer asks the aggregate, if it is a Sizer.
func (g VersionedOf[V, A, R]) Sizer() func(*A) int {
	if s, ok := g.Aggregator.(Sizer[A]); ok {
		return s.Sizer()
	}
	return nil
}

// Remove asks the aggregate, if it is a Remover.
func (g VersionedOf[V, A, R]) Remove(from *A, part A) bool {
	r, ok := g.Aggregator.(Remover[A])
	return ok && r.Remove(from, part)
}
