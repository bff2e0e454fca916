package pulsarx

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// Partition names a partition of a topic. Index is 0 for a topic that has none.
type Partition struct {
	Topic string
	Index int
}

// Processor is the state machine of one input partition: RunStateful and ReplayStateful make one for each, and call it from one
// goroutine at a time. RunStateful makes errors of its panics.
//
// What it does must be a function of its state and the message alone, and not of a clock, a random number or the order of a map: after
// a crash it is restored from its last snapshot and given the same messages again, and must then emit the same values in the same
// order.
type Processor[In, Out any] interface {
	// Process works on the next message of the partition. What it emits is published. An error ends the run, and the message is worked
	// on again by the next one; an error that is Permanent sends the message to the dead letters instead, and the run goes on: then
	// Process has left its state as it was, and has emitted nothing.
	Process(m Message[In], emit func(Out)) error
	// Snapshot writes the state. No message is worked on meanwhile.
	Snapshot(w io.Writer) error
	// Restore reads what Snapshot wrote, in a Processor that is new.
	Restore(r io.Reader) error
}

// changing is a Processor for StatefulOptions.Incremental.
type changing interface {
	SnapshotChanges(w io.Writer) error
}

// CheckpointStore keeps the newest checkpoint of each name. Its methods are called concurrently for different names.
//
// A generation numbers the owners of a name one after the other, so that one that was replaced and does not know it cannot save any
// more. A store that has several users should also have a method
//
//	Claim(ctx context.Context, name string) (r io.ReadCloser, generation uint64, err error)
//
// which is Load and, in one step, makes Save refuse all generations before the one that it returns. Without it RunStateful loads a
// checkpoint and saves it again under the next generation; what an earlier owner saves between the two is lost, although its messages
// are acknowledged. DirStore and TopicStore have it.
//
// For StatefulOptions.Incremental a store has a method
//
//	Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error
//
// which adds what write writes to the checkpoint, as a whole or not at all, so that Load has both one after the other. It refuses a
// generation as Save does, and need not work after an error before the next Save. DirStore and TopicStore have it.
//
// RunStateful ends with an error of a store, unless that has a method Temporary() bool that is true: then the partition begins again
// from its last checkpoint.
type CheckpointStore interface {
	// Load returns the newest checkpoint and its generation. Where there is none, r is nil and generation is 0.
	Load(ctx context.Context, name string) (r io.ReadCloser, generation uint64, err error)
	// Save replaces the checkpoint by what write writes, as a whole or not at all. It refuses a generation below the stored one with an
	// error that is ErrFenced.
	Save(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error
}

// appender is a CheckpointStore for StatefulOptions.Incremental.
type appender interface {
	Append(ctx context.Context, name string, generation uint64, write func(io.Writer) error) error
}

// ErrFenced says that a checkpoint has a newer owner.
var ErrFenced = errors.New("pulsarx: the checkpoint has a newer owner")

// claim takes a name over.
func claim(ctx context.Context, s CheckpointStore, name string) (io.ReadCloser, uint64, error) {
	if c, ok := s.(interface {
		Claim(ctx context.Context, name string) (io.ReadCloser, uint64, error)
	}); ok {
		return c.Claim(ctx, name)
	}
	old, generation, err := s.Load(ctx, name)
	if err != nil || old == nil {
		return old, generation + 1, err
	}
	err = s.Save(ctx, name, generation+1, func(w io.Writer) error {
		_, err := io.Copy(w, old)
		return err
	})
	if err = errors.Join(err, old.Close()); err != nil {
		return nil, 0, err
	}
	return s.Load(ctx, name)
}

// progress is what a checkpoint says beside the processor's snapshot.
type progress struct {
	// Version of the checkpoint's form.
	Version int `json:"version"`
	// Offset of the last message that the snapshot contains, empty before the first.
	Offset string `json:"offset,omitempty"`
	// Outputs that the messages up to there have emitted, which is the sequence id of the next one.
	Outputs int64 `json:"outputs"`
	// Messages that were worked on.
	Messages int64 `json:"messages"`
}

const (
	checkpointVersion = 1
	checkpointFrame   = 64 << 10
	maxProgress       = 1 << 16
)

// A checkpoint is the progress as JSON, with its length as 4 bytes in front, and the snapshot in frames: 4 bytes of length and so many
// bytes. An empty frame ends them, behind which stand 4 bytes of CRC-32C over all lengths and contents before. So a torn or changed
// checkpoint is noticed, whatever store has kept it. Changes follow in the same form, with the progress that they lead to.

// writeCheckpoint streams a checkpoint.
func writeCheckpoint(w io.Writer, p progress, snapshot func(io.Writer) error) error {
	p.Version = checkpointVersion
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f := &frameWriter{out: w, sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	if err := f.frame(text); err != nil {
		return err
	}
	if err := snapshot(f); err != nil {
		return err
	}
	return f.end()
}

type frameWriter struct {
	out    io.Writer
	sum    hash.Hash32
	buffer []byte
	err    error
}

func (f *frameWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && f.err == nil {
		k := min(len(p), checkpointFrame-len(f.buffer))
		f.buffer = append(f.buffer, p[:k]...)
		p, n = p[k:], n+k
		if len(f.buffer) == checkpointFrame {
			f.flush()
		}
	}
	return n, f.err
}

func (f *frameWriter) flush() {
	if len(f.buffer) > 0 && f.err == nil {
		f.err = f.frame(f.buffer)
		f.buffer = f.buffer[:0]
	}
}

func (f *frameWriter) frame(p []byte) error {
	w := io.MultiWriter(f.out, f.sum)
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p)))); err != nil {
		return err
	}
	_, err := w.Write(p)
	return err
}

func (f *frameWriter) end() error {
	f.flush()
	if f.err == nil {
		f.err = f.frame(nil)
	}
	if f.err == nil {
		_, f.err = f.out.Write(f.sum.Sum(nil))
	}
	return f.err
}

// readCheckpoint restores from a checkpoint and its changes. After an error, what restore has made is not to be used.
func readCheckpoint(r io.Reader, restore func(io.Reader) error) (progress, error) {
	f := &frameReader{in: r}
	if f.begin(); f.err != nil {
		return f.progress, f.err
	}
	if err := restore(f); err != nil {
		return f.progress, fmt.Errorf("restoring a snapshot: %w", err)
	}
	_, err := io.Copy(io.Discard, f) // to the checksum
	return f.progress, err
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// frameReader reads the snapshots of a checkpoint and of its changes, one after the other.
type frameReader struct {
	in       io.Reader
	progress progress // of the newest that was begun
	sum      hash.Hash32
	left     uint32 // of the frame
	err      error
}

func (f *frameReader) Read(p []byte) (int, error) {
	for f.err == nil && f.left == 0 {
		f.left, f.err = f.length()
		if f.err == nil && f.left == 0 {
			if f.err = f.check(); f.err == nil {
				f.begin()
			}
		}
	}
	if f.err != nil || len(p) == 0 {
		return 0, f.err
	}
	n, err := f.in.Read(p[:min(len(p), int(f.left))])
	f.sum.Write(p[:n])
	f.left -= uint32(n)
	if err != nil && (f.left > 0 || !errors.Is(err, io.EOF)) {
		f.err = cutOff(err)
	}
	return n, f.err
}

// begin reads the progress in front of a snapshot. At the end of the last one it is io.EOF.
func (f *frameReader) begin() {
	first := f.sum == nil
	f.sum = crc32.New(crc32.MakeTable(crc32.Castagnoli))
	var size [4]byte
	if n, err := io.ReadFull(f.in, size[:]); err != nil {
		if f.err = cutOff(err); n == 0 && errors.Is(err, io.EOF) && !first {
			f.err = io.EOF
		}
		return
	}
	f.sum.Write(size[:])
	f.progress, f.err = f.readProgress(binary.BigEndian.Uint32(size[:]))
}

func (f *frameReader) readProgress(size uint32) (p progress, err error) {
	if size > maxProgress {
		return p, errors.New("not a checkpoint: it begins with something else")
	}
	text := make([]byte, size)
	if err := f.fill(text); err != nil {
		return p, fmt.Errorf("checkpoint is cut off: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("not a checkpoint: %w", err)
	}
	if p.Version != checkpointVersion {
		return p, fmt.Errorf("checkpoint of version %d, which is not known here", p.Version)
	}
	if _, _, _, err := parseOffset(p.Offset); err != nil && p.Offset != "" {
		return p, err
	}
	return p, nil
}

// check compares the checksum.
func (f *frameReader) check() error {
	want := f.sum.Sum(nil)
	var got [4]byte
	if _, err := io.ReadFull(f.in, got[:]); err != nil {
		return cutOff(err)
	}
	if string(got[:]) != string(want) {
		return errors.New("pulsarx: a checkpoint is damaged: its checksum differs")
	}
	return nil
}

func (f *frameReader) length() (uint32, error) {
	var b [4]byte
	if err := f.fill(b[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b[:])
	if n > checkpointFrame {
		return 0, errors.New("pulsarx: a checkpoint is damaged: its frames are too long")
	}
	return n, nil
}

func (f *frameReader) fill(p []byte) error {
	if _, err := io.ReadFull(f.in, p); err != nil {
		return cutOff(err)
	}
	f.sum.Write(p)
	return nil
}

// cutOff makes the end of a stream where more should come an error.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
