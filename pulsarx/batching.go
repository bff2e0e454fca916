package pulsarx

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

// Preset is a named choice of batching and compression.
type Preset int

// The presets and their numbers:
//
//	              MaxDelay  MaxMessages  Compression
//	Balanced         10 ms         1000  LZ4
//	LowLatency        5 ms          500  none
//	Throughput       20 ms         2000  LZ4
//	LowBandwidth     20 ms         2000  ZSTD
const (
	Balanced Preset = iota
	LowLatency
	Throughput
	LowBandwidth
)

// Compression is how the payload of a batch is compressed. Zero is the preset's choice.
type Compression int

// The codecs that every Pulsar client reads.
const (
	NoCompression Compression = -1
	LZ4           Compression = iota
	ZLib
	ZSTD
	Snappy
)

var presets = map[Preset]Batching{
	Balanced:     {MaxDelay: 10 * time.Millisecond, MaxMessages: 1000, Compression: LZ4},
	LowLatency:   {MaxDelay: 5 * time.Millisecond, MaxMessages: 500, Compression: NoCompression},
	Throughput:   {MaxDelay: 20 * time.Millisecond, MaxMessages: 2000, Compression: LZ4},
	LowBandwidth: {MaxDelay: 20 * time.Millisecond, MaxMessages: 2000, Compression: ZSTD},
}

var compressions = map[Compression]pulsar.CompressionType{
	NoCompression: pulsar.NoCompression,
	LZ4:           pulsar.LZ4,
	ZLib:          pulsar.ZLib,
	ZSTD:          pulsar.ZSTD,
	Snappy:        pulsar.SNAPPY,
}

// Batching says when a producer closes a batch. Zero fields take the preset's value.
type Batching struct {
	// Preset gives the fields that are not set; Balanced by default.
	Preset Preset
	// MaxMessages closes a batch; -1 gives every message a batch of its own.
	MaxMessages int
	// MaxDelay closes a batch that is not full. Send does not wait for it: it closes the batch at once.
	MaxDelay time.Duration
	// MaxBytes closes a batch, before compression; 128 KiB by default.
	MaxBytes int
	// Compression of the batch's payload; NoCompression switches off what the preset has.
	Compression Compression
	// AcrossKeys puts messages of different keys into one batch. That is smaller and faster, but a Key_Shared subscription
	// dispatches a batch as a whole by the key of its first message, so that the messages of one key reach several consumers
	// and lose their order. Leave it off unless no subscription of the topic is Key_Shared.
	//
	// Without it pulsar-client-go makes a batch, and a compressor (of half a MiB for LZ4), for every key. Where keys seldom come
	// twice within MaxDelay, as the changes of a large table, MaxMessages: -1 sends as many bytes, with one compressor: 3.6 times
	// as many messages a second in BenchmarkManyKeys.
	AcrossKeys bool
}

func (b Batching) withDefaults() Batching {
	preset := presets[b.Preset]
	if b.MaxMessages == 0 {
		b.MaxMessages = preset.MaxMessages
	}
	if b.MaxMessages == -1 {
		b.MaxMessages = 1
	}
	if b.MaxDelay == 0 {
		b.MaxDelay = preset.MaxDelay
	}
	if b.MaxBytes == 0 {
		b.MaxBytes = 128 << 10
	}
	if b.Compression == 0 {
		b.Compression = preset.Compression
	}
	return b
}

func (b Batching) validate() error {
	var errs []error
	if _, ok := presets[b.Preset]; !ok {
		errs = append(errs, fmt.Errorf("unknown Batching.Preset %d", b.Preset))
	}
	if _, ok := compressions[b.Compression]; !ok && b.Compression != 0 {
		errs = append(errs, fmt.Errorf("unknown Batching.Compression %d", b.Compression))
	}
	if b.MaxMessages < 0 {
		errs = append(errs, fmt.Errorf("Batching.MaxMessages is %d", b.MaxMessages))
	}
	if b.MaxDelay < 0 {
		errs = append(errs, fmt.Errorf("Batching.MaxDelay is %v", b.MaxDelay))
	}
	if b.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("Batching.MaxBytes is %d", b.MaxBytes))
	}
	return errors.Join(errs...)
}

// apply writes the choice into the client's options. Keys are batched apart unless AcrossKeys says otherwise.
func (b Batching) apply(o *pulsar.ProducerOptions) {
	o.BatchingMaxMessages = uint(b.MaxMessages)
	o.BatchingMaxPublishDelay = b.MaxDelay
	o.BatchingMaxSize = uint(b.MaxBytes)
	o.CompressionType = compressions[b.Compression]
	o.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
	if b.AcrossKeys || b.MaxMessages == 1 { // where no two keys meet, and the other builder makes a compressor a message
		o.BatcherBuilderType = pulsar.DefaultBatchBuilder
	}
}
