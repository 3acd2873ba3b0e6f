// Package accesslog writes a line for each request: as JSON, or in the common
// log format that most tools read.
//
// [Log.Record] is called on the goroutine of the client's connection when an
// exchange is over. It formats the line and puts it into a bounded queue; one
// goroutine writes the queue out. It guarantees that traffic never waits for the
// disk: a line that does not fit into the queue is dropped and counted. It
// guarantees that a record is exactly one line and that no client can make it look
// like two, like another one, or send control characters to a reader's terminal.
//
// Credentials are never written: the headers that carry them are redacted, also
// where the options keep them. Unknown names of fields are refused, because a
// field that was to be dropped would be kept.
package accesslog

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/proxy"
)

// Format is how a line is written.
type Format string

// The formats.
// The bounds of the queue and of the memory for formatting.
const (
	// FormatCommon is the common log format with referrer, user agent, and then
	// the number of the request, the rule, the endpoint and the time in ms.
	FormatCommon Format = "common"
	// FormatGeneric is the common log format with referrer and user agent, also
	// known as combined, and nothing else.
	FormatGeneric Format = "genericCLF"
	// FormatJSON is one JSON object.
	FormatJSON Format = "json"
)

// Mode is how a field or a header is written.
type Mode string

// The modes. Redact is for headers only.
const (
	Keep   Mode = "keep"
	Drop   Mode = "drop"
	Redact Mode = "redact"
)

// Options are the settings of a Log.
type Options struct {
	// FilePath is the file that lines are appended to; empty means Stdout.
	FilePath string
	Stdout   io.Writer
	Format   Format // common when it is empty
	// BufferingSize bounds the queue in lines; 0 means 10000.
	BufferingSize int
	// FlushInterval is how long a line may wait. Default 250 ms; a line that
	// fills the buffer does not wait.
	FlushInterval time.Duration

	// Filters select requests; without any, all are written.
	Filters Filters

	// FieldMode is for fields without a mode of their own; keep when it is empty.
	FieldMode Mode
	// Fields are modes by the name of the field, in any case.
	Fields map[string]Mode
	// HeaderMode is for headers without a mode of their own; drop when it is
	// empty.
	HeaderMode Mode
	// Headers are modes by the name of the header, in any case.
	Headers map[string]Mode

	// Log gets errors of writing.
	Log *slog.Logger
}

const (
	defaultLines    = 10000
	defaultInterval = 250 * time.Millisecond
	// maxScratch is the largest buffer that is kept for the next line.
	maxScratch = 64 << 10
)

// Log writes records. It is safe for concurrent use.
type Log struct {
	filters filters
	layout  layout
	writer  *writer

	requests, filtered atomic.Uint64
	scratch            sync.Pool
}

// New opens the log and starts its goroutine.
func New(options Options) (*Log, error) {
	l := &Log{scratch: sync.Pool{New: func() any { return new([]byte) }}}
	var err error
	if l.filters, err = options.Filters.compile(); err != nil {
		return nil, err
	}
	if l.layout, err = newLayout(options); err != nil {
		return nil, err
	}
	if l.writer, err = newWriter(options); err != nil {
		return nil, err
	}
	return l, nil
}

// Record queues a line for an exchange, if a filter selects it. It does not wait,
// does not keep the record, and does not allocate once its buffers have grown.
// The scratch buffer is pooled: lines are formatted outside of the queue's lock.
func (l *Log) Record(r *proxy.Record) {
	number := l.requests.Add(1)
	if r.Unrecorded().AccessLog || !l.filters.want(r) {
		l.filtered.Add(1)
		return
	}
	scratch := l.scratch.Get().(*[]byte)
	line := l.layout.appendLine((*scratch)[:0], r, number)
	l.writer.put(line)
	if cap(line) <= maxScratch {
		*scratch = line
		l.scratch.Put(scratch)
	}
}

// Reopen opens the file again after a log rotation. Lines that were recorded before
// go to the old file. When the new one cannot be opened, the old one stays in use.
func (l *Log) Reopen(ctx context.Context) error { return l.writer.reopen(ctx) }

// Close writes the queue and closes the file. It gives up when ctx is done. Records
// that come later are dropped.
func (l *Log) Close(ctx context.Context) error { return l.writer.close(ctx) }

// Stats are counters since the Log was made.
type Stats struct {
	// Requests is the number of records. Each was Written, Filtered, Dropped
	// because the queue was full, or Failed to be written.
	Requests, Written, Filtered, Dropped, Failed uint64
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	return Stats{
		Requests: l.requests.Load(), Filtered: l.filtered.Load(),
		Written: l.writer.written.Load(), Dropped: l.writer.dropped.Load(), Failed: l.writer.failed.Load(),
	}
}

// FieldNames lists the fields that a line can have.
func FieldNames() []string {
	names := make([]string, len(fieldTable))
	for i := range fieldTable {
		names[i] = fieldTable[i].name
	}
	return names
}

// sortedKeys makes error messages independent of the order of a map.
func sortedKeys(modes map[string]Mode) []string {
	return slices.SortedFunc(maps.Keys(modes), strings.Compare)
}
