package filter

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"slipway.dev/slipway/internal/route"
)

// coding is an encoding by its number in encodingNames.
type coding int

// encodingNames has the encodings; a coding is an index into it, and so into pools.
var encodingNames = [...]route.Encoding{route.EncodingGzip, route.EncodingBrotli, route.EncodingZstd}

// The settings of encoders. Responses are compressed for one client at once, so
// time counts more than the last percent, and an encoder has to stay below a
// megabyte.
const (
	gzipLevel     = 5
	brotliQuality = 4
	brotliWindow  = 18
	zstdWindow    = 256 << 10
	// encodersPerProcessor bounds the responses that are compressed at one time.
	// Beyond it they are sent as they are.
	encodersPerProcessor = 128
)

// Encoders is a pool of encoders, which are large, for the responses that need one.
// It is safe for concurrent use.
type Encoders struct {
	pools   [len(encodingNames)]sync.Pool
	most    int64
	used    atomic.Int64
	refused atomic.Uint64
}

// NewEncoders returns an empty pool.
func NewEncoders() *Encoders {
	return &Encoders{most: int64(encodersPerProcessor * runtime.GOMAXPROCS(0))}
}

// Refused returns how many responses were not compressed because too many others
// were.
func (e *Encoders) Refused() uint64 { return e.refused.Load() }

// Encoder compresses one body. The caller sends what is in Output, and resets it.
type Encoder struct {
	Output bytes.Buffer

	store  *Encoders
	coding coding
	writer encodingWriter
}

// encodingWriter is the common part of the three libraries.
type encodingWriter interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// take returns an encoder, nil when too many are in use.
func (e *Encoders) take(at coding) *Encoder {
	if e.used.Add(1) > e.most {
		e.used.Add(-1)
		e.refused.Add(1)
		return nil
	}
	made, ok := e.pools[at].Get().(*Encoder)
	if !ok {
		writer, err := newEncodingWriter(at)
		if err != nil {
			e.used.Add(-1)
			return nil
		}
		made = &Encoder{store: e, coding: at, writer: writer}
	}
	made.Output.Reset()
	made.writer.Reset(&made.Output)
	return made
}

func newEncodingWriter(at coding) (encodingWriter, error) {
	switch encodingNames[at] {
	case route.EncodingGzip:
		return gzip.NewWriterLevel(io.Discard, gzipLevel)
	case route.EncodingBrotli:
		return brotli.NewWriterOptions(io.Discard, brotli.WriterOptions{Quality: brotliQuality, LGWin: brotliWindow}), nil
	case route.EncodingZstd:
		return zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
	}
	return nil, fmt.Errorf("there is no encoder number %d", at)
}

// Write compresses a piece and flushes it to Output: a client that waits for the
// piece need not wait for the next one.
func (e *Encoder) Write(piece []byte) (int, error) {
	n, err := e.writer.Write(piece)
	if err == nil {
		err = e.writer.Flush()
	}
	return n, err
}

// Close ends the body. Its last bytes are in Output then.
func (e *Encoder) Close() error { return e.writer.Close() }

// Release gives the encoder back to the pool, also in the middle of a body.
func (e *Encoder) Release() {
	e.store.used.Add(-1)
	if e.Output.Cap() > largestOutput {
		e.Output = bytes.Buffer{}
	}
	e.store.pools[e.coding].Put(e)
}

// largestOutput bounds the output buffer that a pooled encoder keeps.
const largestOutput = 128 << 10
