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

var encodingNames = [...]route.Encoding{route.EncodingGzip, route.EncodingBrotli, route.EncodingZstd}

// What encoders are set to: answers are made for one client at once, so time
// counts more than the last percent, and an encoder is to stay below a megabyte.
const (
	gzipLevel     = 5
	brotliQuality = 4
	brotliWindow  = 18
	zstdWindow    = 256 << 10
	// encodersPerProcessor bounds the answers that are encoded at one time.
	// What is beyond goes as it is.
	encodersPerProcessor = 128
)

// Encoders lends encoders, which are large, to the answers that need one. It is
// safe for use by many goroutines.
type Encoders struct {
	pools   [len(encodingNames)]sync.Pool
	most    int64
	used    atomic.Int64
	refused atomic.Uint64
}

// NewEncoders makes an empty store.
func NewEncoders() *Encoders {
	return &Encoders{most: int64(encodersPerProcessor * runtime.GOMAXPROCS(0))}
}

// Refused is how many answers were not encoded because too many others were.
func (e *Encoders) Refused() uint64 { return e.refused.Load() }

// Encoder makes one body shorter. Output has what is ready to be sent; it is the
// caller's to take and reset.
type Encoder struct {
	Output bytes.Buffer

	store  *Encoders
	coding coding
	writer encodingWriter
}

type encodingWriter interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

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

// Write encodes a piece so that all of it can be read from what is in Output
// afterwards: whoever waits for it need not wait for more.
func (e *Encoder) Write(piece []byte) (int, error) {
	n, err := e.writer.Write(piece)
	if err == nil {
		err = e.writer.Flush()
	}
	return n, err
}

// Close ends the body. The last of it is in Output then.
func (e *Encoder) Close() error { return e.writer.Close() }

// Release gives the encoder back, at whatever place of the body.
func (e *Encoder) Release() {
	e.store.used.Add(-1)
	if e.Output.Cap() > largestOutput {
		e.Output = bytes.Buffer{}
	}
	e.store.pools[e.coding].Put(e)
}

// largestOutput is what an encoder that waits for work keeps of its output.
const largestOutput = 128 << 10
